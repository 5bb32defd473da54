"""Packages of a workspace are linked to the copy, all others to the work tree."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.workspace.dependencies.editable_installs import own_packages

if TYPE_CHECKING:
    from pathlib import Path


def test_links_of_a_workspace_stay_in_the_copy(tmp_path: Path) -> None:
    modules = tmp_path / "app" / "node_modules"
    for name in ("left-pad", ".bin", "@types/node", "@acme"):
        (modules / name).mkdir(parents=True)
    (tmp_path / "node_modules/.pnpm/mocha").mkdir(parents=True)
    (tmp_path / "libs/money").mkdir(parents=True)
    assert own_packages(str(tmp_path), "app/node_modules") == {}
    (modules / "mocha").symlink_to("../../node_modules/.pnpm/mocha")
    (modules / "@acme/money").symlink_to("../../../libs/money")
    (modules / "absolute").symlink_to(tmp_path / "libs/money")
    assert own_packages(str(tmp_path), "app/node_modules") == {
        "app/node_modules/left-pad": str(modules / "left-pad"),
        "app/node_modules/.bin": str(modules / ".bin"),
        "app/node_modules/@types/node": str(modules / "@types/node"),
        "app/node_modules/mocha": str(modules / "mocha"),
        "app/node_modules/@acme/money": "../../../libs/money",
        "app/node_modules/absolute": "../../libs/money",
    }
