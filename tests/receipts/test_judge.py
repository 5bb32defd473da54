"""Which receipts count, and for what: forged, replayed, moved, hidden behind links."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import jwt
import pytest

from rlm_ci.receipts import statement
from rlm_ci.receipts.judge import judge
from rlm_ci.receipts.receipt import FOLDER, LIMIT, Receipt, bare_trees, path_of
from testing.receipts_stage import ISSUED, SIBLING, SLUG, WORKFLOW, Scene
from testing.repositories.delegated_runs import TASK
from testing.token_issuer import KEYS, TokenIssuer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(autouse=True)
def begun(scene: Scene) -> Iterator[None]:
    scene.repo.checkout("feature").run("reset", "-q", "--hard", scene.work)
    yield
    scene.issuer.faults.clear()


# -- the tree -----------------------------------------------------------------------------------


def amended(scene: Scene) -> str:
    """The receipt becomes part of the commit that it names."""
    scene.repo.write(path_of(TASK), scene.receipt().to_bytes()).run("add", "-A")
    scene.repo.run("commit", "-q", "--amend", "--no-edit")
    return scene.repo.sha()


def followed(scene: Scene) -> str:
    scene.commit(scene.receipt())
    return scene.repo.write("b", "later").commit()


def squashed(scene: Scene) -> str:
    followed(scene)
    scene.repo.run("reset", "-q", "--soft", scene.base)
    return scene.repo.commit(stage=False)


def of_base(scene: Scene) -> str:
    scene.repo.run("reset", "-q", "--soft", scene.base)
    return scene.commit(scene.receipt(scene.base))


def rebased(scene: Scene) -> str:
    """Onto a base with one more file: no tree of the change is what it was."""
    head = scene.commit(scene.receipt())
    scene.repo.checkout(scene.base, detach=True).write("other", "").commit()
    scene.repo.run("cherry-pick", scene.work, head)
    return scene.repo.sha()


def of_stranger(scene: Scene) -> str:
    scene.repo.checkout("elsewhere", new=True).write("c", "").commit()
    stranger = scene.repo.sha()
    scene.repo.checkout("feature")
    return scene.commit(scene.receipt(stranger))


@pytest.mark.parametrize(
    ("made", "where"),
    [
        (lambda scene: scene.commit(scene.receipt()), "on the head"),
        (amended, "on the head"),
        (followed, "on the commit "),
        (of_base, "on the merge base"),
        (squashed, None),
        (rebased, None),
        (of_stranger, None),
    ],
)
def test_its_tree_is_one_of_the_change(
    scene: Scene, made: Callable[[Scene], str], where: str | None
) -> None:
    found = scene.judged(made(scene))
    if where is None:
        assert "is neither the head's nor the merge base's" in found.problem
    else:
        assert found.problem == ""
        assert found.label.startswith(f"1 run, 1 succeeded, {where}")
        assert found.label.endswith("; author's evidence, not proof: no CI job made it")


def test_it_says_which_runs_an_agent_s_program_recorded(scene: Scene) -> None:
    runs = [
        scene.run(number=number, recorded_by=program)
        for number, program in enumerate(("", "Claude Code 2.1.197", "Codex", "Codex"))
    ]
    head = scene.commit(scene.receipt(scene.work, *runs))
    told = "4 runs, 4 succeeded, 3 recorded by Claude Code 2.1.197 and 1 more program, on "
    assert scene.judged(head).label.startswith(told)


def test_a_bare_tree_is_git_s_own_without_the_folder(scene: Scene) -> None:
    repo = scene.repo.write(".delegation.d/x", "").write(".delegationx", "").write("é\\", "")
    without = repo.commit()
    with_one = repo.write(f"{FOLDER}/x", "").commit()
    tree = repo.text("rev-parse", f"{without}^{{tree}}")
    assert bare_trees(scene.opened, [without, with_one]) == {without: tree, with_one: tree}


# -- the file -----------------------------------------------------------------------------------


def linked_folder(scene: Scene) -> str:
    scene.repo.write(f"elsewhere/{TASK}.json", scene.receipt().to_bytes())
    return scene.repo.symlink(FOLDER, "elsewhere").commit()


def linked_file(scene: Scene) -> str:
    scene.repo.write("elsewhere.json", scene.receipt().to_bytes())
    return scene.repo.symlink(path_of(TASK), "../elsewhere.json").commit()


def as_folder(scene: Scene) -> str:
    return scene.repo.write(f"{path_of(TASK)}/x", "").commit()


def altered(scene: Scene, **fields: Any) -> str:
    return scene.commit(scene.receipt().replace(**fields))


@pytest.mark.parametrize(
    ("made", "problem"),
    [
        (linked_folder, f"{FOLDER} is not a folder"),
        (lambda scene: scene.repo.write(FOLDER, "x").commit(), f"{FOLDER} is not a folder"),
        (linked_file, "it is not a regular file"),
        (as_folder, "it is not a regular file"),
        (lambda scene: scene.commit(b" " * (LIMIT + 1)),
         "it has 1,048,577 bytes, more than 1,048,576"),
        (lambda scene: scene.commit(b"[" * LIMIT), "it is not valid JSON"),
        (lambda scene: altered(scene, task_id="0102-x"), "it is the receipt of another task"),
        (lambda scene: altered(scene, runs=(scene.run(f"{SIBLING}-docs"),)),
         f"{SIBLING}-docs is no subagent run of {TASK}"),
        (lambda scene: altered(scene, runs=(scene.run(), scene.run(TASK))),
         f"{TASK} is no subagent run of {TASK}"),
        (lambda scene: altered(scene, runs=(scene.run("0999"),)),
         f"0999 is no subagent run of {TASK}"),
        (lambda scene: altered(scene, runs=(scene.run(status="failed"),)),
         "none of its runs succeeded"),
        (lambda scene: scene.commit(scene.receipt()), "it is not verified: no CI job made it"),
    ],
)  # fmt: skip
def test_one_that_does_not_count_says_why(
    scene: Scene, made: Callable[[Scene], str], problem: str
) -> None:
    found = scene.judged(made(scene), succeeded=True, must_be_verified=True)
    assert (found.problem, found.label) == (problem, "")
    who = "let a CI job make the receipt" if "verified" in problem else "make the receipt anew"
    assert found.hint == f"{who}, and commit it: rlm-ci receipt --task {TASK}"


def test_one_of_other_letters_is_another_one(scene: Scene) -> None:
    head = scene.commit(scene.receipt(), TASK.upper())
    assert judge(scene.change(head), TASK, scene.owner, scene.policy) is None


@pytest.mark.full
def test_among_thousands_one_is_read(scene: Scene) -> None:
    other = scene.repo.text("rev-parse", f"{scene.work}:a")
    tree = "".join(f"100644 blob {other}\tx{number}.json\n" for number in range(10_000))
    blob = scene.repo.run("hash-object", "-w", "--stdin", stdin=scene.receipt().to_bytes())
    tree += f"100644 blob {blob.decode().strip()}\t{TASK}.json\n"
    folder = scene.repo.run("mktree", stdin=tree.encode()).decode().strip()
    top = scene.repo.run("ls-tree", scene.work) + f"040000 tree {folder}\t{FOLDER}\n".encode()
    whole = scene.repo.run("mktree", stdin=top).decode().strip()
    assert scene.judged(scene.repo.commit_tree(whole, [scene.work])).problem == ""


# -- the signature ------------------------------------------------------------------------------


def replaced(receipt: Receipt, **fields: Any) -> Receipt:
    assert receipt.workflow is not None
    return receipt.replace(workflow=receipt.workflow.replace(**fields))


def resigned(scene: Scene, key: Any, algorithm: str, **headers: Any) -> Receipt:
    """The right claims, signed in another way."""
    receipt = scene.receipt().replace(workflow=scene.made_by_job())
    claims = scene.claims(receipt)
    return receipt.replace(token=jwt.encode(claims, key, algorithm, {"kid": "key-1", **headers}))


def unsigned(scene: Scene) -> Receipt:
    """A receipt has no empty signature, so there is something in its place."""
    receipt = resigned(scene, None, "none")
    return receipt.replace(token=f"{receipt.token}eA")


def signed_with_public_key(scene: Scene) -> Receipt:
    """HS256, whose secret is the public key: the library refuses to make one, so by hand."""
    receipt = scene.receipt().replace(workflow=scene.made_by_job())
    part = jwt.utils.base64url_encode
    head = part(b'{"alg":"HS256","typ":"JWT","kid":"key-1"}')
    body = head + b"." + part(json.dumps(scene.claims(receipt)).encode())
    made = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    signature = made.sign(body, scene.issuer.public_pem())
    return receipt.replace(token=(body + b"." + part(signature)).decode())


def elsewhere() -> TokenIssuer:
    """Another's key, under the same name."""
    other = TokenIssuer()
    other.server_close()
    return other


def merged(scene: Scene, of: str, number: int = 12) -> Receipt:
    """As an event pull_request has it: the workflow runs on GitHub's merge of ``of``."""
    merge = scene.merge(of)
    fields = {"ref": f"refs/pull/{number}/merge", "merge_commit": scene.encoded(merge)}
    return scene.signed(scene.receipt().replace(workflow=scene.made_by_job(merge, **fields)))


def with_edited_workflow(scene: Scene) -> Receipt:
    work = scene.repo.write(WORKFLOW, "on: push # and lie\n").commit()
    return scene.signed(scene.receipt(work).replace(workflow=scene.made_by_job(work)))


def with_reverted_workflow(scene: Scene) -> Receipt:
    receipt = with_edited_workflow(scene)
    scene.repo.write(WORKFLOW, "on: push\n").commit()
    return receipt


def later(scene: Scene, by: int) -> Receipt:
    return scene.signed(iat=ISSUED + by, nbf=ISSUED + by, exp=ISSUED + by + 300)


def with_fault(scene: Scene, status: int, body: bytes) -> Receipt:
    scene.issuer.faults[KEYS] = status, body
    return scene.signed()


OTHER_SLUG = "acme/other"
NOT_VALID = "the signature of its token is not valid"
UNVERIFIED: dict[str, tuple[Callable[[Scene], Receipt], str]] = {
    "forged": (lambda scene: resigned(scene, elsewhere().key, "RS256"), NOT_VALID),
    "alg none": (unsigned, NOT_VALID),
    "the public key as a secret": (signed_with_public_key, NOT_VALID),
    "another algorithm": (lambda scene: resigned(scene, scene.issuer.key, "RS512"), NOT_VALID),
    "keys of its own": (lambda scene: resigned(
        scene, elsewhere().key, "RS256", jku="http://127.0.0.1:1/", x5u="http://127.0.0.1:1/",
        jwk=jwt.algorithms.RSAAlgorithm.to_jwk(elsewhere().key.public_key(), as_dict=True),
    ), NOT_VALID),
    "no token at all": (lambda scene: scene.signed().replace(token="x.y.z"), NOT_VALID),
    "deep header": (lambda scene: scene.signed().replace(
        token=jwt.utils.base64url_encode(b"[" * 9000).decode() + ".e30.e30"), NOT_VALID),
    "key is gone": (lambda scene: resigned(scene, elsewhere().key, "RS256", kid="key-0"),
                    "GitHub no longer publishes the key that signed its token"),
    "key of no name": (lambda scene: resigned(scene, scene.issuer.key, "RS256", kid=""),
                       "GitHub no longer publishes the key that signed its token"),
    "moved to another receipt": (
        lambda scene: scene.signed().replace(runs=(scene.run(), scene.run(number=2))),
        "its token is for another receipt"),
    "audience of another service": (lambda scene: scene.signed(aud="sts.amazonaws.com"),
                                    "its token is for another receipt"),
    "issuer of another server": (
        lambda scene: scene.signed(iss="https://token.actions.githubusercontent.com"),
        "its token is of another issuer"),
    "issuer of no name": (lambda scene: scene.signed(iss=f"{scene.issuer.issuer}/../x"),
                          "its token is of another issuer"),
    "no issuer": (lambda scene: scene.signed(iss=""), "its token is of another issuer"),
    "another repository": (
        lambda scene: scene.signed(scene.receipt().replace(
            workflow=scene.made_by_job(repository=OTHER_SLUG))),
        "a workflow of another repository made it"),
    "token of another repository": (lambda scene: scene.signed(repository=OTHER_SLUG),
                                    "its token does not say the same about its repository"),
    "token of another run": (lambda scene: scene.signed(run_id="78"),
                             "its token does not say the same about its run_id"),
    "token of another commit": (lambda scene: scene.signed(sha="9" * 40),
                                "its token does not say the same about its sha"),
    "on another commit": (
        lambda scene: scene.signed(scene.receipt().replace(workflow=scene.made_by_job(scene.base))),
        "the workflow that made it ran on another commit"),
    "commit not of the change": (
        lambda scene: scene.signed(scene.receipt(scene.base).replace(
            workflow=scene.made_by_job(scene.base))),
        "the commit that it names is not in this pull request"),
    "tree of another commit": (
        lambda scene: scene.signed(scene.receipt(scene.base).replace(commit=scene.work)),
        "the commit that it names is not in this pull request"),
    "merge of another pull request": (lambda scene: merged(scene, scene.work, 13),
                                      "the workflow that made it ran on another commit"),
    "merge of another head": (lambda scene: merged(scene, scene.base),
                              "the workflow that made it ran on another commit"),
    "invented merge": (lambda scene: replaced(
        merged(scene, scene.base), merge_commit=scene.encoded(scene.merge(scene.work))),
        "the workflow that made it ran on another commit"),
    "merge no base64": (lambda scene: replaced(merged(scene, scene.work), merge_commit="é*"[1:]),
                        "the workflow that made it ran on another commit"),
    "edited workflow": (with_edited_workflow, f"this pull request changes {WORKFLOW}"),
    "workflow put back": (with_reverted_workflow, f"this pull request changes {WORKFLOW}"),
    "workflow of nowhere": (
        lambda scene: scene.signed(scene.receipt().replace(workflow=scene.made_by_job(
            workflow_ref="mallory/x/.github/workflows/a.yml@refs/heads/x"))),
        "its token names no workflow of this repository"),
    "edited reusable workflow": (
        lambda scene: scene.signed(job_workflow_ref=f"{SLUG}/.github/workflows/new.yml@refs/x"),
        "this pull request changes .github/workflows/new.yml"),
    "long after": (lambda scene: later(scene, 90_000),
                   "its token was not issued within a day after its last run"),
    "long before": (lambda scene: later(scene, -1000),
                    "its token was not issued within a day after its last run"),
    "no time": (lambda scene: scene.signed(
        scene.receipt("", scene.run(completed_at=None))), "it does not say when its runs ended"),
    "not yet issued": (lambda scene: later(scene, 1 << 33), NOT_VALID),
    "GitHub refuses": (lambda scene: with_fault(scene, 404, b""),
                       "GitHub's keys cannot be read: status 404"),
    "no JSON": (lambda scene: with_fault(scene, 200, b"<html>"),
                "GitHub's keys cannot be read: the answer is not a JSON object"),
    "a key that is none": (lambda scene: with_fault(scene, 200, b'{"keys": [1]}'), NOT_VALID),
    "keys no list": (lambda scene: with_fault(scene, 200, b'{"keys": 1}'), NOT_VALID),
    "no keys": (lambda scene: with_fault(scene, 200, b'{"keys": []}'), NOT_VALID),
    "too long": (lambda scene: with_fault(scene, 200, b" " * (1 << 20) + b"{}"),
                 "GitHub's keys cannot be read: the answer is too long"),
}  # fmt: skip


#: The others take their time in the full suite.
SAMPLE = {"forged", "the public key as a secret", "keys of its own", "key is gone",
          "moved to another receipt", "token of another repository", "commit not of the change",
          "merge of another head", "workflow put back"}  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=() if one in SAMPLE else pytest.mark.full) for one in UNVERIFIED],
)
def test_without_a_good_signature_it_is_the_author_s_word(scene: Scene, name: str) -> None:
    made, reason = UNVERIFIED[name]
    found = scene.judged(scene.commit(made(scene)))
    assert found.label.partition("; ")[2] == f"author's evidence, not proof: {reason}"
    assert found.problem == ""


def test_a_job_s_receipt_is_verified(scene: Scene) -> None:
    told = f"verified: {WORKFLOW} made it in run 77, on {scene.work[:12]}"
    head = scene.commit(scene.signed())
    assert scene.judged(head, must_be_verified=True).label.partition("; ")[2] == told
    assert "; verified: " in scene.judged(head, workflows=("x.yml", WORKFLOW)).label
    assert scene.judged(head, workflows=("x.yml",)).label.endswith(
        f"author's evidence, not proof: {WORKFLOW} is none of delegation_guard.workflows"
    )
    # No pull request, or none that may ask GitHub.
    assert "author's evidence" in scene.judged(head, number=None).label
    asked = len(scene.issuer.asked)
    unasked = scene.judged(head, server_url=None, why_unchecked="because")
    assert unasked.label.endswith("author's evidence, not proof: because")
    assert len(scene.issuer.asked) == asked


def test_an_enterprise_may_have_an_issuer_of_its_own(scene: Scene) -> None:
    head = scene.commit(scene.signed(iss=f"{scene.issuer.issuer}/octo-inc"))
    assert "; verified: " in scene.judged(head).label


def test_a_receipt_of_a_pull_request_s_job_is_verified(scene: Scene) -> None:
    """The workflow runs on GitHub's merge, whose own content names the head."""
    found = scene.judged(scene.commit(merged(scene, scene.work)))
    assert "; verified: " in found.label, found


# -- the in-toto statement beside it --------------------------------------------------------------


def with_statement(scene: Scene, **changed: Any) -> tuple[Receipt, bytes]:
    """A receipt of a job, signed by GitHub, and the statement of it with ``changed`` fields."""
    key = statement.new_key()
    receipt = scene.signed(scene.receipt().replace(public_key=key.public))
    return receipt, statement.signed(receipt.replace(**changed), key)


def test_a_statement_that_says_the_same_is_verified_with_it(scene: Scene) -> None:
    receipt, data = with_statement(scene)
    scene.repo.write(statement.path_of(TASK), data)
    assert "; verified: " in scene.judged(scene.commit(receipt)).label


def test_a_statement_that_says_something_else_counts_for_nothing(scene: Scene) -> None:
    receipt, data = with_statement(scene, tree="0" * 40)
    scene.repo.write(statement.path_of(TASK), data)
    problem = scene.judged(scene.commit(receipt)).problem
    assert problem == f"{statement.path_of(TASK)} says something else"
    scene.repo.write(statement.path_of(TASK), b"{}")
    assert "is no envelope" in scene.judged(scene.commit(receipt)).problem


def test_a_statement_with_another_signature_is_the_author_s(scene: Scene) -> None:
    receipt, _ = with_statement(scene)
    forged = statement.signed(receipt, statement.new_key())
    scene.repo.write(statement.path_of(TASK), forged)
    label = scene.judged(scene.commit(receipt)).label
    assert label.endswith("not proof: the signature of its in-toto statement is not valid")
