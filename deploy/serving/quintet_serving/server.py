"""MLServer for one bundle: nothing listens before the model is loaded, and bad input never becomes a 500."""

import contextlib
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from grpc import aio
from mlserver import MLServer, ModelSettings, Settings
from mlserver.errors import MLServerError
from mlserver.grpc import GRPCServer
from mlserver.grpc.dataplane_pb2_grpc import add_GRPCInferenceServiceServicer_to_server
from mlserver.grpc.interceptors import PromServerInterceptor
from mlserver.grpc.servicers import InferenceServicer
from mlserver.handlers import ModelRepositoryHandlers
from mlserver.metrics import MetricsServer
from mlserver.middleware import InferenceMiddlewares
from mlserver.rest import RESTServer
from starlette.exceptions import HTTPException

from quintet_serving.errors import ServingError
from quintet_serving.guard import RefusalError, RequestGuard, check_target


class BundleServer(MLServer):
    """Serves the one model of `model`, with the metrics on an address of their own."""

    def __init__(self, settings: Settings, model: ModelSettings, metrics_host: str, max_request_bytes: int):
        self._model_settings = model
        self._metrics_host = metrics_host
        self._max_request_bytes = max_request_bytes
        super().__init__(settings)

    def _create_servers(self) -> None:
        self._model_repository_handlers = FixedRepository(self._model_repository, self._model_registry)
        # MLServer copies a request's id into response headers, where many a valid id is not allowed.
        self._data_plane._inference_middleware = InferenceMiddlewares()
        super()._create_servers()
        self._kafka_server = None
        served = (self._model_settings.name, self._model_settings.version)
        self._grpc_server = BundleGRPCServer(self._settings, self._data_plane, self._model_repository_handlers, served)
        self._metrics_server = BundleMetricsServer(self._settings.model_copy(update={"host": self._metrics_host}))
        self._rest_server = BundleRESTServer(self._settings, self._data_plane, self._model_repository_handlers)
        _harden(self._rest_server._app, served, self._max_request_bytes)

    async def start(self, models_settings: list[ModelSettings] | None = None) -> None:
        """Load the model, then listen until a signal comes. Raises what the model raises when it is refused."""
        await self._model_registry.load(self._model_settings)
        await super().start([])

    @property
    def listening(self) -> bool:
        servers = [getattr(part, "_server", None) for part in (self._rest_server, self._metrics_server)]
        return all(getattr(server, "started", False) for server in servers) and self._grpc_server.listening


class ListeningServer(uvicorn.Server):
    """Leaves signals to MLServer. Two servers of uvicorn in one process would hand each signal to one another, which
    the second of them takes for the user's impatience."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class BundleRESTServer(RESTServer):
    async def start(self) -> None:
        self._server = ListeningServer(self._get_config())
        await self._server.serve()


class BundleMetricsServer(MetricsServer):
    async def start(self) -> None:
        self._server = ListeningServer(self._get_config())
        await self._server.serve()


class FixedRepository(ModelRepositoryHandlers):
    """The repository of a server whose model is chosen when it starts."""

    async def load(self, name: str) -> bool:
        raise MLServerError(f"{name[:60]!r} cannot be loaded over the network; start a server for its bundle", 422)

    async def unload(self, name: str) -> bool:
        raise MLServerError(f"{name[:60]!r} cannot be unloaded over the network; stop the server", 422)


class BundleServicer(InferenceServicer):
    """Refuses what cannot be read as INVALID_ARGUMENT, where the base class would say INTERNAL."""

    def __init__(self, data_plane: Any, repository: Any, served: tuple[str, str | None]):
        super().__init__(data_plane, repository)
        self._served = served

    def _InsertHeaders(self, request: Any, context: Any) -> Any:  # noqa: N802 the name of the base class
        try:
            check_target(request.model_name, request.model_version, *self._served)
            return super()._InsertHeaders(request, context)
        except RefusalError as refusal:
            raise MLServerError(str(refusal), refusal.status) from refusal
        except (struct.error, ValueError, KeyError, IndexError, OverflowError, MemoryError) as error:
            raise MLServerError(
                f"the tensors of the request cannot be read ({error}); raw_input_contents must hold one entry per"
                " input, as long as shape and datatype say"
            ) from error


class BundleGRPCServer(GRPCServer):
    """The inference service alone, on a port that no other process shares."""

    def __init__(self, settings: Settings, data_plane: Any, repository: Any, served: tuple[str, str | None]):
        super().__init__(settings, data_plane, repository)
        self._served = served
        self.listening = False

    def _create_server(self) -> Any:
        options = [*self._get_options(), ("grpc.so_reuseport", 0)]
        self._server = aio.server(
            interceptors=[PromServerInterceptor(enable_handling_time_histogram=True)], options=options
        )
        servicer = BundleServicer(self._data_plane, self._model_repository_handlers, self._served)
        add_GRPCInferenceServiceServicer_to_server(servicer, self._server)
        address = f"{self._settings.host}:{self._settings.grpc_port}"
        if not self._server.add_insecure_port(address):
            raise ServingError(f"{address} cannot be opened for gRPC; choose another --grpc-port")
        self.listening = True
        return self._server


def _harden(app: FastAPI, served: tuple[str, str | None], max_request_bytes: int) -> None:
    app.add_middleware(RequestGuard, model_name=served[0], model_version=served[1], max_body_bytes=max_request_bytes)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(Exception, _failed)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    """The framework's own answer repeats the input, which fails for bytes and is as long as the request."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    first: dict[str, Any] = dict(faults[0]) if faults else {"loc": (), "msg": "not a request", "type": ""}
    if first["type"] == "json_invalid":
        reason = str(first.get("ctx", {}).get("error", ""))
        return _error(400, f"the body is not JSON: {reason[:200]}; send an object as the Open Inference Protocol says")
    place = ".".join(str(part) for part in first["loc"])[:200]
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return _error(422, f"{place}: {first['msg'][:200]}{more}; send an object as the Open Inference Protocol says")


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status, detail = (error.status_code, error.detail) if isinstance(error, HTTPException) else (400, str(error))
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return _error(status, f"{detail}: {request.method} {request.url.path[:100]}", headers)


async def _failed(request: Request, error: Exception) -> JSONResponse:
    return _error(500, "the server failed on this request; its log has the reason")


def _error(status: int, reason: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": reason}, status_code=status, headers=headers)


def server_settings(folder: Path, host: str, ports: dict[str, int], max_request_bytes: int) -> dict[str, Any]:
    """Settings of MLServer, written out in full so that no variable of the environment changes one of them."""
    return {
        "debug": False,
        "host": host,
        "http_port": ports["http"],
        "grpc_port": ports["grpc"],
        "metrics_port": ports["metrics"],
        "metrics_endpoint": "/metrics",
        "grpc_max_message_length": max_request_bytes,
        # inference in the server's own process: a model this small gains nothing from another one.
        "parallel_workers": 0,
        "model_repository_root": str(folder),
        "load_models_at_startup": True,
        "server_name": "quintet-serving",
        "root_path": "",
        "gzip_enabled": False,
        "cache_enabled": False,
        "kafka_enabled": False,
        "tracing_server": None,
        "cors_settings": None,
    }
