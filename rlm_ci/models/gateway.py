"""One way to a model for a whole run: its endpoint, budgets and record."""

from __future__ import annotations

import os
from contextlib import suppress
from copy import copy
from decimal import Decimal
from functools import partial

from rlm_ci.errors import ConfigError, RemoteError, RlmCiError
from rlm_ci.models import ModelRequest, context_length, prices, recorded
from rlm_ci.models.budget import SHORTEST, Ledger
from rlm_ci.models.context_length import ContextFit
from rlm_ci.models.json_question import REPAIR, repair_bytes
from rlm_ci.models.openai.accepted import NO_FIGURES, EndpointFigures, ModelFigures
from rlm_ci.models.prices import Prices
from rlm_ci.models.providers import GITHUB, PROVIDERS
from rlm_ci.models.record.record import AbsentModel
from rlm_ci.system.ordered_threads import in_order
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Self, TypeVar

    from rlm_ci.models import Completion, Message, Model
    from rlm_ci.models.copilot import CopilotModel
    from rlm_ci.models.json_question import Ask
    from rlm_ci.models.openai.client import OpenAIModel
    from rlm_ci.models.prices import Price
    from rlm_ci.models.providers import Endpoint
    from rlm_ci.models.record.clock import RunClock
    from rlm_ci.models.record.record import Record
    from rlm_ci.models.recorded import RecordedModel

    T = TypeVar("T")

    #: ``learn(request, limit, prompt)``: the tokens that a model reads, and those of a prompt.
    Learn = Callable[[ModelRequest, int | None, int | None], None]

#: How many of the runs before are looked into, and bytes of all that they were answered.
_EARLIER = 5
_EARLIER_BYTES = 64 << 20
#: Seconds that all attempts of a call have at least.
_LEAST = 300.0
#: The provider of a model that the caller's own program brings.
CONNECTOR = "connector"
_ASSUMED = "assumed"
#: The setting that says how much a model reads.
SETTING = "models.context_tokens"
#: No caller needs to know of more calls than this.
_MANY = 1000


class ModelOptions(Value):
    """Where models are asked, and what all calls of a run may cost.

    ``timeout``: seconds for one answer; ``prices``: USD per million tokens, by model;
    ``recording``: a file that gets each answer, "" for none; ``context_tokens``: what the model
    reads, None to ask its endpoint.
    """

    endpoint: Endpoint
    timeout: float
    prices: Mapping[str, Mapping[str, float]]
    max_calls: int | None
    max_tokens: int | None
    budget_usd: Decimal | None
    recording: str = ""
    context_tokens: int | None = None


class ModelContext(Value):
    """The tokens that a model reads, prompt and answer together, and who says so.

    ``bytes_per_token`` is what it has shown in an earlier run, None for nothing.
    """

    tokens: int
    source: str
    bytes_per_token: float | None = None

    @property
    def is_known(self) -> bool:
        return self.source != _ASSUMED

    def summary(self, prompt: int, answer: int) -> str:
        """What the sizes of prompts and answers follow from, in words."""
        return (
            f"the model reads {self.tokens:,} tokens ({self.source}): prompts have at most "
            f"{prompt:,} bytes, answers {answer:,} tokens"
        )


class Gateway:
    """One ledger and one record for all calls of a run to ``model``.

    ``provider`` is the one that the run began with, if it did; a ``replay`` asks none.
    ``connector`` answers instead of the endpoint; ``others`` are further models that may be asked.
    ``tell`` hears of waits for the endpoint's limits. ``runs`` is the folder of all runs, "" to
    keep nothing that the endpoint shows of itself.
    Raises ConfigError without a ``model``, with another provider now, and when money is limited and
    a price unknown.
    """

    def __init__(
        self,
        options: ModelOptions,
        record: Record,
        clock: RunClock,
        *,
        model: str | None,
        max_minutes: float | None,
        provider: str | None = None,
        replay: bool = False,
        connector: Model | None = None,
        others: Iterable[str | None] = (),
        tell: Callable[[str], None] = lambda _text: None,
        runs: str = "",
    ) -> None:
        if not model:
            raise ConfigError(
                "no model is named", where="model", hint="say which one: --model NAME"
            )
        price = price_of(options)
        self.ledger = Ledger(
            max_calls=options.max_calls,
            max_tokens=options.max_tokens,
            budget_usd=options.budget_usd,
            max_minutes=max_minutes,
            price=price,
            spent=record.spent,
            clock=clock.seconds,
            used=clock.seconds(),
        )
        for name in filter(None, (model, *others)):
            options.endpoint.own_name(name)
            self.ledger.require_price(name)
        self.model = model
        self._record = record
        self.price = price
        self._seconds = max(_LEAST, options.timeout)
        self._recording = "" if replay else options.recording
        began = provider or provider_of(options)
        is_played = replay or connector is not None or began == recorded.RECORDED
        self.figures = EndpointFigures("" if is_played else runs, options.endpoint.base_url, model)
        self._model = _answering(options, began, connector, replay, tell, self._learn)

    def complete(self, request: ModelRequest, step: str) -> Completion:
        """See ``Record.complete``."""
        completion = self._record.complete(
            self._model, self.ledger, request, step, seconds=self._seconds
        )
        usage = completion.usage
        if usage is not None and not usage.estimated:
            self._learn(request, None, usage.prompt_tokens)
        self.ledger.note(request, usage)
        if self._recording:
            recorded.keep(self._recording, request, completion)
        return completion

    def _learn(self, request: ModelRequest, limit: int | None, prompt: int | None) -> None:
        """Take the tokens that the model reads, and those of the prompt, where they are known."""
        if request.model != self.model:
            return
        if limit is not None:
            self.figures.refuse(limit)
        if prompt is not None:  # few endpoints count a schema
            self.figures.count(request.replace(response_format=None).prompt_bytes(), prompt)

    def close(self) -> None:
        """Close the connections to the endpoint; a connector is its caller's."""
        if isinstance(self._model, Closing):
            self._model.close()

    def shown(self, place: str) -> ModelFigures:
        """What the model had shown when a part began: a fact at ``place``."""
        fact = self._record.fact("figures", f"{place}/figures", {}, self.figures.shown.to_dict)
        return ModelFigures(fact["bytes_per_token"], fact["context_tokens"])

    def within(self, ledger: Ledger) -> Gateway:
        """The same way, with ``ledger`` as its account."""
        part = copy(self)
        part.ledger = ledger
        return part

    def calls_left(self) -> int | None:
        """How many more calls like those so far the budgets allow, one after the other.

        None where no budget limits them, and where the next one will be refused anyway.
        """
        ledger, spent = self.ledger, self.ledger.spent
        ends = [] if ledger.max_calls is None else [ledger.max_calls - spent.calls]
        if spent.calls:
            prompt = spent.prompt_tokens // spent.calls
            if ledger.max_tokens is not None:
                left = Decimal(ledger.max_tokens - spent.tokens)
                ends.append(_times(left, Decimal(spent.tokens) / spent.calls, prompt + SHORTEST))
            price = self.price(self.model)
            if ledger.budget_usd is not None and price is not None:
                left = ledger.budget_usd - spent.usd
                ends.append(_times(left, spent.usd / spent.calls, price.max_cost(prompt, SHORTEST)))
        fewest = min(ends, default=0)
        return fewest if fewest > 0 else None


class GatewayAsk(Closing):
    """An ``Ask`` by ``gateway``; its calls are recorded below ``step``.

    A prompt has ``prompt_bytes`` at first, and ``largest`` where the endpoint counts fewer tokens
    than were thought. An answer has ``max_tokens``. ``context_tokens`` is what the model reads;
    None, of old runs: the sizes stay. ``is_assumed``: nobody says so.

    What a part of a run learns follows from its own answers and refusals, in their order, and, if
    it ``shares``, from what the endpoint had shown other parts when it began: this is a fact, as a
    replay has to make the same prompts. Until the endpoint has shown anything, one part asks alone.
    """

    def __init__(
        self,
        gateway: Gateway,
        step: str,
        *,
        prompt_bytes: int,
        max_tokens: int,
        context_tokens: int | None,
        largest: int | None,
        has_forms: bool,
        shares: bool = False,
        is_assumed: bool = False,
    ) -> None:
        self.model = gateway.model
        self._max_bytes = prompt_bytes
        self._gateway = gateway
        self._place = step
        self.max_tokens = max_tokens
        self.fit = ContextFit.of(context_tokens)
        #: None where the prompts are not limited by the context: counts change nothing.
        self._largest = None if largest is None or largest <= prompt_bytes else largest
        self._has_forms = has_forms
        is_shown = gateway.figures.stored.bytes_per_token is not None
        self._may_be_refused = is_assumed or (self._largest is not None and not is_shown)
        self._is_to_begin = shares and self.fit is not None
        self._is_first = self.is_taught = False

    @property
    def max_bytes(self) -> int:
        self._begin()
        return self._max_bytes

    @property
    def repair(self) -> int:
        return REPAIR if self.fit is None else repair_bytes(self.max_bytes)

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        self._begin()
        form = response_format if self._has_forms else None
        request = ModelRequest(
            self.model, tuple(messages), self.max_tokens, tuple(tools), response_format=form
        )
        read = request.replace(response_format=None)  # few endpoints count a schema
        try:
            completion = self._gateway.complete(request, f"{self._place}/{step}")
        except RemoteError as error:
            if self.fit is not None and self.fit.shrinks(read, error):
                self._shrink(self.fit)
                self._max_bytes = min(self._max_bytes, self.fit.room(self.max_tokens))
            raise
        finally:
            self._gateway.figures.is_asked = True
            self.close()
        if self.fit is not None and self._largest is not None:
            self.fit.learn(read.prompt_bytes(), completion.usage)
            self._max_bytes = min(self._largest, self.fit.room(self.max_tokens))
        return completion

    def _begin(self) -> None:
        """Take what the endpoint has shown, before the first prompt is made."""
        if not self._is_to_begin or self.fit is None:
            return
        self._is_to_begin = False
        figures = self._gateway.figures
        if self._may_be_refused and not figures.is_asked:
            figures.first.acquire()
            self._is_first = True
            if self._gateway.figures.is_asked:  # another part has, meanwhile
                self.close()
        shown = self._gateway.shown(self._place)
        if shown == NO_FIGURES or (self._largest is None and shown.context_tokens is None):
            return  # counts change nothing where the context does not limit the prompts
        self.fit.take(shown.context_tokens, shown.bytes_per_token)
        self._shrink(self.fit)
        room = self.fit.room(self.max_tokens)
        self.is_taught = room < self._max_bytes
        self._max_bytes = min(room, self._largest or self._max_bytes)

    def _shrink(self, fit: ContextFit) -> None:
        """Ask for shorter answers where they would take more than half of the context."""
        if self.max_tokens > fit.longest(self.max_tokens):
            self.max_tokens = fit.answer(self.max_tokens)

    def close(self) -> None:
        """Let others ask: this part has an answer, or ends without one."""
        if self._is_first:
            self._is_first = False
            self._gateway.figures.first.release()

    def calls_left(self) -> int | None:
        return self._gateway.calls_left()

    def fork(self) -> Self:
        """One that asks beside this one: what it learns is its own until it is joined."""
        self._begin()
        self.close()
        part = copy(self)
        part.fit = copy(self.fit)
        return part

    def join(self, parts: Sequence[Self]) -> None:
        """Learn what ``parts`` have, whatever their order: the least of their sizes holds."""
        for part in parts:
            if self.fit is not None and part.fit is not None:
                self.fit.merge(part.fit)
        self.max_tokens = min(part.max_tokens for part in parts)
        self._max_bytes = min(part.max_bytes for part in parts)


def ask_together(
    ask: Ask, questions: Sequence[Callable[[Ask], T]], concurrency: int
) -> list[T | None]:
    """The results of ``questions``, up to ``concurrency`` at once, in their order.

    Each begins with what ``ask`` knows, which then knows what all of them have learned: so a replay
    makes the same prompts. Raises the error of the first that raised.
    """
    parts = [ask.fork() if isinstance(ask, GatewayAsk) else ask for _ in questions]
    tasks = [partial(question, part) for question, part in zip(questions, parts, strict=True)]
    results, error = in_order(tasks, concurrency)
    if error is not None:
        raise error
    if isinstance(ask, GatewayAsk):
        ask.join([part for part in parts if isinstance(part, GatewayAsk)])
    return results


def _times(left: Decimal, usual: Decimal, room: Decimal | int) -> int:
    """How often ``left`` allows for ``usual`` while ``room`` is left."""
    if left < room:
        return 0
    return 1 + min(int((left - room) / usual), _MANY) if usual else _MANY


def price_of(options: ModelOptions) -> Callable[[str], Price | None]:
    """The price of a model by its name, or None. Raises ConfigError for an invalid one."""
    endpoint = options.endpoint
    prices = Prices(options.prices, endpoint.base_url)

    def price(model: str) -> Price | None:
        return prices.of(model if model in options.prices else endpoint.own_name(model))

    return price


def provider_of(options: ModelOptions) -> str:
    """The provider that is set; a call's key holds it."""
    if options.endpoint.base_url.startswith(recorded.SCHEME):
        return recorded.RECORDED
    if options.endpoint.variables is not None:
        return options.endpoint.provider
    return "azure" if options.endpoint.api_version else "openai"


def context_of(
    options: ModelOptions, model: str, connector: Model | None = None, runs: str = ""
) -> ModelContext:
    """What ``model`` reads: as the setting says, its endpoint, the table of models; else DEFAULT.

    What it refused in an earlier of all ``runs`` counts where its endpoint does not say it. A
    recording is played as long as it was made. Asks the endpoint at most; raises nothing.
    """
    endpoint = options.endpoint
    is_asked = connector is None and provider_of(options) != recorded.RECORDED
    figures = NO_FIGURES
    if is_asked:
        figures = EndpointFigures(runs, endpoint.base_url, model).stored
    context = _context_of(options, model, connector, figures.context_tokens)
    return context.replace(bytes_per_token=figures.bytes_per_token)


def _context_of(
    options: ModelOptions, model: str, connector: Model | None, refused: int | None
) -> ModelContext:
    endpoint = options.endpoint
    if options.context_tokens:
        return ModelContext(options.context_tokens, SETTING)
    tokens = None
    if connector is None and not endpoint.lack:
        with (
            suppress(RlmCiError),
            opened(options) as model_service,
        ):  # the first question meets it too
            tokens = model_service.context_tokens(model)
    if tokens:
        return ModelContext(tokens, "as its endpoint says")
    if refused:
        return ModelContext(refused, "as it refused more in an earlier run")
    is_local = endpoint.provider in PROVIDERS and PROVIDERS[endpoint.provider].local
    if connector is None and not is_local and provider_of(options) != recorded.RECORDED:
        with suppress(ConfigError):
            tokens = prices.context_window(endpoint.own_name(model), endpoint.base_url)
    if tokens:
        return ModelContext(tokens, "as the table of models says")
    return ModelContext(context_length.DEFAULT, _ASSUMED)


def _answering(  # noqa: PLR0917 - the gateway's own
    options: ModelOptions,
    provider: str,
    connector: Model | None,
    replay: bool,  # noqa: FBT001 - it is passed through
    tell: Callable[[str], None],
    learn: Learn,
) -> Model:
    if replay:
        return AbsentModel(provider)
    now = provider_of(options) if connector is None else connector.name
    if CONNECTOR in (now, provider) and now != provider:
        raise ConfigError(
            f"the run began with {provider}, and would use {now} now",
            where="RLMRunner",
            hint="a run with a connector of your program continues by RLMRunner.resume_run",
        )
    if connector is not None:
        return connector
    if now != provider and {recorded.RECORDED, GITHUB} & {now, provider}:
        raise ConfigError(
            f"the run began with {provider}, and would use {now} now",
            where="models.provider" if GITHUB in (now, provider) else "OPENAI_BASE_URL",
            hint="set the endpoint as it was when the run began, or start a new run",
        )
    if now != provider:
        state = "is set" if now == "azure" else "is not set"
        raise ConfigError(
            f"the run began with {provider}, and would use {now} now: OPENAI_API_VERSION {state}",
            where="OPENAI_API_VERSION",
            hint="set the endpoint as it was when the run began, or start a new run",
        )
    return opened(options, tell, learn)


def opened(
    options: ModelOptions,
    tell: Callable[[str], None] = lambda _text: None,
    learn: Learn = lambda _request, _limit, _prompt: None,
) -> OpenAIModel | CopilotModel | RecordedModel:
    """The model of an endpoint, or the one that plays a recording. Raises ConfigError."""
    if provider_of(options) == recorded.RECORDED:
        return recorded.RecordedModel(options.endpoint.base_url.removeprefix(recorded.SCHEME))
    timeout = options.timeout
    if options.endpoint.variables is not None:
        from rlm_ci.models.copilot import TOKEN, CopilotModel

        return CopilotModel(
            {**options.endpoint.variables, TOKEN: options.endpoint.api_key},
            own_name=options.endpoint.own_name,
            seconds=max(_LEAST, timeout),
        )
    from rlm_ci.models.openai.client import OpenAIModel, RetryLimits

    return OpenAIModel(
        base_url=options.endpoint.base_url,
        api_key=options.endpoint.api_key,
        azure_api_version=options.endpoint.api_version,
        own_name=options.endpoint.own_name,
        lacks=options.endpoint.lacks,
        tell=tell,
        learn=learn,
        patience=RetryLimits(answer=timeout, total=max(_LEAST, timeout)),
    )


def earlier(run: str, name: str) -> tuple[str, ...]:
    """The files ``name`` of a few runs beside the folder ``run``, the newest first.

    Together they are small enough to be read.
    """
    folder, base = os.path.split(os.path.abspath(run))
    try:
        with os.scandir(folder) as entries:
            runs = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return ()
    paths: list[str] = []
    room = _EARLIER_BYTES
    for path in sorted(runs, reverse=True):
        file = os.path.join(path, name)
        try:
            room -= os.stat(file, follow_symlinks=False).st_size
        except OSError:  # it has made no call, or has just been removed
            continue
        if len(paths) == _EARLIER or room < 0:
            break
        if os.path.basename(path) != base:
            paths.append(file)
    return tuple(paths)


def require_endpoint(options: ModelOptions, otherwise: str) -> None:
    """Raise ConfigError where the endpoint lacks something; ``otherwise`` is the way out."""
    if lack := options.endpoint.lack:
        raise ConfigError(f"no model is set up: {lack}", where="models", hint=otherwise)
