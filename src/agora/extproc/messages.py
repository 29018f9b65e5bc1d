"""The fields of Envoy's messages that the filter reads and writes.

They are declared by name, number and type in a separate pool, so that they do not collide with a
package of Envoy's messages that another library loads. Other fields are ignored, as the wire format
intends. A test compares the declarations with those that Envoy publishes.
"""

from collections.abc import Iterator
from typing import Any

from agora.errors import MissingExtraError

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    raise MissingExtraError(__name__, "extproc") from error

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
_CORE = "envoy.config.core.v3"
_MODES = "envoy.extensions.filters.http.ext_proc.v3"
_CALLS = "envoy.service.ext_proc.v3"
DECLARED = {
    _CORE: """
HeaderValue
    1 key string
    2 value string
    3 raw_value bytes
HeaderMap
    1 headers repeated HeaderValue
HeaderValueOption
    enum HeaderAppendAction APPEND_IF_EXISTS_OR_ADD ADD_IF_ABSENT OVERWRITE_IF_EXISTS_OR_ADD
    1 header HeaderValue
    3 append_action HeaderValueOption.HeaderAppendAction
""",
    _MODES: """
ProcessingMode
    enum HeaderSendMode DEFAULT SEND SKIP
    enum BodySendMode NONE STREAMED BUFFERED BUFFERED_PARTIAL FULL_DUPLEX_STREAMED
    1 request_header_mode ProcessingMode.HeaderSendMode
    2 response_header_mode ProcessingMode.HeaderSendMode
    3 request_body_mode ProcessingMode.BodySendMode
    4 response_body_mode ProcessingMode.BodySendMode
    5 request_trailer_mode ProcessingMode.HeaderSendMode
    6 response_trailer_mode ProcessingMode.HeaderSendMode
""",
    _CALLS: """
ProtocolConfiguration
    1 request_body_mode envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode
    2 response_body_mode envoy.extensions.filters.http.ext_proc.v3.ProcessingMode.BodySendMode
HttpHeaders
    1 headers envoy.config.core.v3.HeaderMap
    3 end_of_stream bool
HttpBody
    1 body bytes
    2 end_of_stream bool
HttpTrailers
    1 trailers envoy.config.core.v3.HeaderMap
ProcessingRequest
    2 request_headers HttpHeaders of request
    3 response_headers HttpHeaders of request
    4 request_body HttpBody of request
    5 response_body HttpBody of request
    6 request_trailers HttpTrailers of request
    7 response_trailers HttpTrailers of request
    11 protocol_config ProtocolConfiguration
HeaderMutation
    1 set_headers repeated envoy.config.core.v3.HeaderValueOption
    2 remove_headers repeated string
StreamedBodyResponse
    1 body bytes
    2 end_of_stream bool
BodyMutation
    1 body bytes of mutation
    2 clear_body bool of mutation
    3 streamed_response StreamedBodyResponse of mutation
CommonResponse
    enum ResponseStatus CONTINUE CONTINUE_AND_REPLACE
    1 status CommonResponse.ResponseStatus
    2 header_mutation HeaderMutation
    3 body_mutation BodyMutation
    5 clear_route_cache bool
HeadersResponse
    1 response CommonResponse
BodyResponse
    1 response CommonResponse
TrailersResponse
    1 header_mutation HeaderMutation
ProcessingResponse
    1 request_headers HeadersResponse of response
    2 response_headers HeadersResponse of response
    3 request_body BodyResponse of response
    4 response_body BodyResponse of response
    5 request_trailers TrailersResponse of response
    6 response_trailers TrailersResponse of response
    9 mode_override envoy.extensions.filters.http.ext_proc.v3.ProcessingMode
""",
}
"""The messages of each package. A line is a field with its number, name, type and `oneof`, or an
enum whose values are numbered from 0."""
_SCALARS = {
    "string": descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
    "bytes": descriptor_pb2.FieldDescriptorProto.TYPE_BYTES,
    "bool": descriptor_pb2.FieldDescriptorProto.TYPE_BOOL,
}


def _files() -> "Iterator[descriptor_pb2.FileDescriptorProto]":
    """Yield a file for each package, dependencies first."""
    before: list[str] = []
    for package, declared in DECLARED.items():
        file = descriptor_pb2.FileDescriptorProto(
            name=f"{package}.proto", package=package, dependency=before, syntax="proto3"
        )
        for line in declared.strip().splitlines():
            words = line.split()
            if not line.startswith(" "):
                file.message_type.add(name=words[0])
            elif words[0] == "enum":
                _add_enum(file.message_type[-1], words[1], words[2:])
            else:
                _add_field(file.message_type[-1], package, words)
        before = [*before, file.name]
        yield file


def _add_enum(message: "descriptor_pb2.DescriptorProto", name: str, values: list[str]) -> None:
    enum = message.enum_type.add(name=name)
    for number, value in enumerate(values):
        enum.value.add(name=value, number=number)


def _add_field(message: "descriptor_pb2.DescriptorProto", package: str, words: list[str]) -> None:
    number, name, *kind = words
    repeated = kind[0] == "repeated"
    if repeated:
        kind = kind[1:]
    field = message.field.add(name=name, number=int(number), label=3 if repeated else 1)
    if kind[0] in _SCALARS:
        field.type = _SCALARS[kind[0]]
    else:
        # The pool finds out whether it is a message or an enum.
        own = kind[0] if kind[0].startswith("envoy.") else f"{package}.{kind[0]}"
        field.type_name = f".{own}"
    if len(kind) == 3:
        if not any(one.name == kind[2] for one in message.oneof_decl):
            message.oneof_decl.add(name=kind[2])
        field.oneof_index = len(message.oneof_decl) - 1


POOL = descriptor_pool.DescriptorPool()
for _file in _files():
    POOL.AddSerializedFile(_file.SerializeToString())


def _class(package: str, name: str) -> Any:
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(f"{package}.{name}"))


HeaderValue = _class(_CORE, "HeaderValue")
HeaderValueOption = _class(_CORE, "HeaderValueOption")
ProcessingMode = _class(_MODES, "ProcessingMode")
BodyMutation = _class(_CALLS, "BodyMutation")
BodyResponse = _class(_CALLS, "BodyResponse")
CommonResponse = _class(_CALLS, "CommonResponse")
HeadersResponse = _class(_CALLS, "HeadersResponse")
ProcessingRequest = _class(_CALLS, "ProcessingRequest")
ProcessingResponse = _class(_CALLS, "ProcessingResponse")
StreamedBodyResponse = _class(_CALLS, "StreamedBodyResponse")
TrailersResponse = _class(_CALLS, "TrailersResponse")
