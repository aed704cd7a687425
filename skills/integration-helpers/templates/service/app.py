"""Inference service of a released model: FastAPI around ONNX Runtime. Run it: `python app.py`.

POST /predict takes one row or many, GET /health, /ready, /model and /metrics tell about the service. See README.md.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import uvicorn
from answers import Answers
from drift import Drift
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from guard import Guard, problem
from predictor import NotFiniteError, program, read_signature
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from pydantic import ConfigDict, Field, create_model, model_validator
from rows import Rows
from settings import Settings, read_settings
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse

HERE = Path(__file__).resolve().parent
INLINE_BYTES = 4_000_000
"""Size of the program times rows up to which a prediction is made at once rather than in a thread."""
INLINE_BODY_BYTES = 32_768
"""Size of a request up to which its rows are prepared at once rather than in a thread."""
MAX_ERRORS = 50
"""Fields that an answer names."""


def create_app(folder: Path, settings: Settings) -> FastAPI:
    """Return the application. Raises NotTheModelError where a file of the model is not the released one."""
    signature = read_signature(folder)
    rows = Rows(signature, folder / "model")
    answers = Answers(program(folder / "model", settings.threads), signature, folder / "model")
    answers(rows.example())  # not ready before it has run once
    drift = Drift(Path(settings.drift_log) if settings.drift_log else None, signature["classes"])
    number, name = signature["release"]["number"], signature["release"]["name"]
    app = FastAPI(
        title=signature["project"], version=name, lifespan=_life(drift, settings.drift_seconds), redoc_url=None
    )
    app.add_middleware(Guard, settings=settings)
    _handle_errors(app)
    _describe(app, signature, (folder / "model" / "README.md").read_text(encoding="utf-8"))
    size = (folder / "model" / "model.onnx").stat().st_size * answers.runs_per_row
    body = _body(rows, min(settings.most_rows, signature["most_rows"] or settings.most_rows))
    _predict(app, body, rows, answers, drift=drift, size=size, release=name if number is None else number)
    return app


def _life(drift: Drift, seconds: float) -> Any:
    """Return what runs beside the application: the drift log, whose last line is written at the end."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(drift.follow(seconds))
        yield
        following.cancel()
        with suppress(asyncio.CancelledError):
            await following
        drift.write()

    return life


def _predict(
    app: FastAPI, body_type: Any, rows: Rows, answers: Answers, *, drift: Drift, size: int, release: int | str
) -> None:
    """Add the route that predicts.

    Args:
        size: of the program, in bytes, times how often a row runs it.
        release: its number; the beginning of the program's digest where that is not known.
    """

    def answered(given: list[Any]) -> tuple[Any, list[dict[str, Any]]]:
        inputs = rows.inputs(given)
        found = answers(inputs)
        for notes, answer in zip(rows.notes(given, inputs), found, strict=True):
            if notes:
                answer["notes"] = notes
        return inputs, found

    @app.post("/predict", openapi_extra={"description": "One `row`, or up to the limit of `rows`."})
    async def predict(body: body_type, request: Request) -> JSONResponse:
        given = [body.row] if body.row is not None else body.rows
        is_small = size * len(given) <= INLINE_BYTES and len(await request.body()) <= INLINE_BODY_BYTES
        inputs, found = answered(given) if is_small else await run_in_threadpool(answered, given)
        rows.count(given, inputs, drift)
        drift.predicted(found)
        if body.row is not None:
            return JSONResponse({"prediction": found[0], "release": release})
        return JSONResponse({"predictions": found, "release": release})


def _body(rows: Rows, most: int) -> Any:
    """Return the model of a request's body: exactly one of `row` and `rows`."""
    row = rows.Row

    def one_of_both(self: Any) -> Any:
        if (self.row is None) == (self.rows is None):
            raise ValueError('give either "row" (one) or "rows" (a list)')
        return self

    validators: dict[str, Any] = {"one_of_both": model_validator(mode="after")(one_of_both)}
    return create_model(
        "Body",
        __config__=ConfigDict(extra="forbid"),
        __validators__=validators,
        row=(row | None, None),
        rows=(Annotated[list[row], Field(min_length=1, max_length=most)] | None, None),  # type: ignore[valid-type]
    )


def _describe(app: FastAPI, signature: dict[str, Any], card: str) -> None:
    """Add the routes that tell about the service and its model."""
    shown = {**signature, "inputs": {**signature["inputs"], "statistics": {}}, "card": card}

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Whether the process answers."""
        return {"status": "alive"}

    @app.get("/ready")
    async def ready() -> dict[str, Any]:
        """Whether predictions can be asked for: the files were compared with their digests and the program ran."""
        return {"status": "ready", "program_sha256": signature["release"]["program_sha256"]}

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """Release, digests, inputs, classes, figures of the test split, and the model card."""
        return shown

    @app.get("/metrics")
    async def metrics() -> Response:
        """Counts and times for Prometheus."""
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        found = [{"field": _field(one["loc"]), "problem": _words(one)} for one in error.errors()[:MAX_ERRORS]]
        return JSONResponse({"errors": found}, status_code=422)

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> JSONResponse:
        answer: JSONResponse = problem(error.status_code, str(error.detail), headers=dict(error.headers or {}))
        return answer

    @app.exception_handler(NotFiniteError)
    async def not_finite(_: Request, error: NotFiniteError) -> JSONResponse:
        answer: JSONResponse = problem(422, str(error))
        return answer


def _field(place: tuple[Any, ...]) -> str | None:
    """Return a place in the body as one writes it: `rows[3].petal_width`."""
    found = ""
    for part in place[1:] if len(place) > 1 and isinstance(place[1], str) else ():
        found += f"[{part}]" if isinstance(part, int) else f".{part}" if found else str(part)
    return found or None


def _words(error: Any) -> str:
    text = str(error["msg"]).removeprefix("Value error, ")
    return "the model has no such field" if error["type"] == "extra_forbidden" else text


if __name__ == "__main__":
    chosen = read_settings()
    if not chosen.key:
        sys.stderr.write("SERVICE_KEY is not set: whoever reaches this service may use it.\n")
    uvicorn.run(
        create_app(HERE, chosen),
        host=chosen.host,
        port=chosen.port,
        timeout_graceful_shutdown=chosen.grace_seconds,
        access_log=False,
        lifespan="on",
        log_level="warning",
    )
