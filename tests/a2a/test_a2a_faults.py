"""Does every refusal have its spelling at every door?"""

from __future__ import annotations

import json
from typing import Any

import pytest
from a2a.utils import errors as sdk
from google.protobuf.json_format import ParseDict
from google.rpc import error_details_pb2

from sandboxd import errors
from sandboxd.a2a import faults, jsonrpc
from sandboxd.a2a.jsontext import dump_json
from sandboxd.errors import (
    AnswerInvalid,
    ContentTypeNotSupported,
    DeliveryFailed,
    InvalidParams,
    Problem,
    PromptNotOpen,
    Refusal,
    TaskNotFound,
    UnsupportedOperation,
    VersionNotSupported,
)

REFUSALS = [
    kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Refusal) and kind is not Refusal
]
PROMPT = "0f5a7c1e-6b3d-4c58-9a55-3c1d2e4f5a6b"
INFO = "type.googleapis.com/google.rpc.ErrorInfo"
TWO_PROBLEMS = (
    Problem("/text", "expected string, got integer", "type"),
    Problem("/extra", "additional property 'extra' is not permitted", "additionalProperties"),
)
DOES_NOT_FIT = AnswerInvalid(
    "2 fields do not fit; the prompt is still open", problems=TWO_PROBLEMS, facts={"prompt_id": PROMPT}
)
VALIDATION_ERRORS = [
    {"path": "/text", "keyword": "type", "message": "expected string, got integer"},
    {"path": "/extra", "keyword": "additionalProperties", "message": "additional property 'extra' is not permitted"},
]


def test_every_refusal_has_its_row() -> None:
    assert set(REFUSALS) == set(faults.TABLE)
    assert len({row.dialect.code for row in faults.TABLE.values()}) == len(REFUSALS)
    assert len({row.http.reason for row in faults.TABLE.values()}) == len(REFUSALS)


@pytest.mark.parametrize("kind", REFUSALS)
def test_every_refusal_can_be_spelled_at_every_door(kind: type[Refusal]) -> None:
    refusal = kind("cannot do it: no", problems=[Problem("a.b", "is wrong")], facts={"some_fact": 1, "flag": True})

    status, rest = faults.to_rest(refusal)
    dialect_status, problem = faults.to_problem(refusal, instance_id="default")
    new, old = (faults.to_jsonrpc(refusal, version=version) for version in ("1.0", "0.3"))

    assert rest["error"]["code"] == status
    assert rest["error"].keys() == {"code", "status", "message", "details"}
    assert problem["status"] == dialect_status
    assert problem.keys() >= {"type", "title", "status", "detail", "code", "trace_id", "instance_id"}
    assert new.keys() == old.keys() == {"code", "message", "data"}
    assert new["data"] == rest["error"]["details"]
    assert new["data"][0]["metadata"] == {"someFact": "1", "flag": "true"}
    assert dump_json([rest, problem, new, old])


@pytest.mark.parametrize("kind", REFUSALS)
def test_details_are_well_known_protobuf_types(kind: type[Refusal]) -> None:
    details = faults.to_rest(kind("no", problems=[Problem("a", "b")], facts={"x": None, "y": [1]}))[1]["error"]["details"]
    judges = {"ErrorInfo": error_details_pb2.ErrorInfo, "BadRequest": error_details_pb2.BadRequest}

    for detail in details:
        name = detail["@type"].rpartition(".")[2]
        if name in judges:
            ParseDict({key: value for key, value in detail.items() if key != "@type"}, judges[name]())
        else:
            assert detail.keys() == {"@type", "value"}


@pytest.mark.parametrize(
    ("kind", "sdk_error"),
    [
        (errors.TaskNotFound, sdk.TaskNotFoundError),
        (errors.TaskNotCancelable, sdk.TaskNotCancelableError),
        (errors.PushNotificationNotSupported, sdk.PushNotificationNotSupportedError),
        (errors.UnsupportedOperation, sdk.UnsupportedOperationError),
        (errors.ContentTypeNotSupported, sdk.ContentTypeNotSupportedError),
        (errors.ExtendedCardNotConfigured, sdk.ExtendedAgentCardNotConfiguredError),
        (errors.ExtensionSupportRequired, sdk.ExtensionSupportRequiredError),
        (errors.VersionNotSupported, sdk.VersionNotSupportedError),
        (errors.InvalidRequest, sdk.InvalidRequestError),
        (errors.InvalidParams, sdk.InvalidParamsError),
        (errors.MethodNotFound, sdk.MethodNotFoundError),
        (errors.Internal, sdk.InternalError),
    ],
)
def test_the_sdk_client_knows_codes_and_reasons(kind: type[Refusal], sdk_error: Any) -> None:
    row = faults.TABLE[kind]

    assert row.rpc.code == sdk.JSON_RPC_ERROR_CODE_MAP[sdk_error]
    assert sdk.A2A_REASON_TO_ERROR[row.http.reason] is sdk_error


def test_a_task_that_is_not_found_is_spelled_like_this() -> None:
    refusal = TaskNotFound("cannot find task `t1`: there is none", facts={"task_id": "t1"})
    details = [{"@type": INFO, "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org", "metadata": {"taskId": "t1"}}]

    assert jsonrpc.failure(7, refusal, version="1.0") == {
        "jsonrpc": "2.0",
        "id": 7,
        "error": {"code": -32001, "message": "Task not found: cannot find task `t1`: there is none", "data": details},
    }
    assert faults.to_jsonrpc(refusal, version="0.3")["data"] == {"task_id": "t1"}
    message = "cannot find task `t1`: there is none"
    assert faults.to_rest(refusal) == (
        404,
        {"error": {"code": 404, "status": "NOT_FOUND", "message": message, "details": details}},
    )
    assert faults.to_problem(refusal, instance_id="default") == (
        404,
        {
            "type": "https://agentic-sandbox.aiwg.io/errors/task-not-found",
            "title": "Task not found",
            "status": 404,
            "detail": message,
            "code": "task.not_found",
            "trace_id": "",
            "instance_id": "default",
            "task_id": "t1",
        },
    )


def test_invalid_parameters_name_every_field() -> None:
    refusal = InvalidParams("cannot take it", problems=[Problem("message.role", "is required"), Problem("message.parts", "no")])
    violations = [
        {"field": "message.role", "description": "is required"},
        {"field": "message.parts", "description": "no"},
    ]
    listed = [{"field": "message.role", "reason": "is required"}, {"field": "message.parts", "reason": "no"}]

    new = faults.to_jsonrpc(refusal, version="1.0")

    assert (new["code"], new["message"]) == (
        -32602,
        "Invalid parameters: cannot take it: `message.role`: is required; `message.parts`: no",
    )
    assert new["data"] == [
        {"@type": INFO, "reason": "INVALID_PARAMS", "domain": "a2a-protocol.org"},
        {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": violations},
    ]
    assert faults.to_jsonrpc(refusal, version="0.3")["data"] == {"problems": listed}
    assert faults.to_problem(refusal, instance_id="i")[1]["problems"] == listed


def test_a_long_list_of_problems_is_cut_in_the_text_alone() -> None:
    refusal = InvalidParams("cannot take it", problems=[Problem(f"f{n}", "is wrong") for n in range(12)])
    status, body = faults.to_rest(refusal)

    assert status == 400
    assert body["error"]["message"].endswith("`f9`: is wrong; and 2 more")
    assert len(body["error"]["details"][1]["fieldViolations"]) == 12


def test_an_answer_that_does_not_fit_is_spelled_like_the_samples() -> None:
    assert faults.to_problem(DOES_NOT_FIT, instance_id="default") == (
        422,
        {
            "type": "https://agentic-sandbox.aiwg.io/errors/hitl-response-invalid",
            "title": "Response does not fit the prompt's schema",
            "status": 422,
            "detail": "2 fields do not fit; the prompt is still open",
            "code": "hitl_response_invalid",
            "trace_id": "",
            "instance_id": "default",
            "prompt_id": PROMPT,
            "validation_errors": VALIDATION_ERRORS,
        },
    )
    assert faults.to_jsonrpc(DOES_NOT_FIT, version="0.3") == {
        "code": -32011,
        "message": "hitl_response_invalid",
        "data": {
            "extension": "https://agentic-sandbox.aiwg.io/extensions/hitl-prompt/v1",
            "prompt_id": PROMPT,
            "validation_errors": VALIDATION_ERRORS,
        },
    }
    info = {"reason": "HITL_RESPONSE_INVALID", "domain": "agentic-sandbox.aiwg.io", "metadata": {"promptId": PROMPT}}
    details = [
        {"@type": INFO, **info},
        {"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"validation_errors": VALIDATION_ERRORS}},
    ]
    assert faults.to_jsonrpc(DOES_NOT_FIT, version="1.0") == {
        "code": -32011,
        "message": "hitl_response_invalid",
        "data": details,
    }
    assert faults.to_rest(DOES_NOT_FIT)[0] == 422
    assert faults.to_rest(DOES_NOT_FIT)[1]["error"]["details"] == details


def test_a_prompt_that_is_not_open_names_the_accepted_message() -> None:
    refusal = PromptNotOpen("the prompt was answered", facts={"prompt_id": PROMPT, "accepted_message_id": "m9"})

    status, problem = faults.to_problem(refusal, instance_id="default")
    rpc = faults.to_jsonrpc(refusal, version="1.0")

    assert (status, problem["code"], problem["accepted_message_id"]) == (409, "hitl_already_answered_or_unknown", "m9")
    assert (rpc["code"], rpc["message"]) == (-32010, "hitl_already_answered_or_unknown")
    assert rpc["data"][0]["metadata"] == {"promptId": PROMPT, "acceptedMessageId": "m9", "detail": "the prompt was answered"}
    assert faults.to_rest(refusal)[0] == 409


@pytest.mark.parametrize(("is_open", "spelled"), [(True, "true"), (False, "false")])
def test_a_failed_delivery_says_whether_the_prompt_is_open_again(is_open: bool, spelled: str) -> None:
    refusal = DeliveryFailed(
        "cannot type the answer: the terminal is gone", facts={"prompt_id": PROMPT, "prompt_open": is_open}
    )

    assert faults.to_problem(refusal, instance_id="default")[1]["prompt_open"] is is_open
    assert faults.to_jsonrpc(refusal, version="0.3")["data"]["prompt_open"] is is_open
    rpc = faults.to_jsonrpc(refusal, version="1.0")
    assert (rpc["code"], rpc["message"]) == (-32012, "hitl_delivery_failed")
    assert rpc["data"][0]["metadata"]["promptOpen"] == spelled
    assert faults.to_rest(refusal)[0] == 502


def test_a_content_type_is_415_for_a_body_and_400_for_a_part() -> None:
    assert faults.to_rest(ContentTypeNotSupported("no"))[0] == 415
    assert faults.to_rest(ContentTypeNotSupported("no", problems=[Problem("message.parts[0]", "no")]))[0] == 400


def test_a_terminal_task_has_the_dialects_own_code() -> None:
    terminal = UnsupportedOperation("no", facts={"state": "completed"})

    assert faults.to_problem(terminal, instance_id="i")[1]["code"] == "task.terminal"
    assert faults.to_problem(UnsupportedOperation("no"), instance_id="i")[1]["code"] == "operation.not_supported"


def test_codes_that_03_does_not_know_become_invalid_request() -> None:
    refusal = VersionNotSupported("no", facts={"supported_versions": ["1.0", "0.3"]})

    assert faults.to_jsonrpc(refusal, version="0.3")["code"] == -32600
    assert faults.to_jsonrpc(refusal, version="1.0")["code"] == -32009
    assert faults.to_jsonrpc(refusal, version="1.0")["data"][0]["metadata"] == {"supportedVersions": "1.0, 0.3"}


def test_facts_cannot_replace_what_a_problem_document_says_itself() -> None:
    status, problem = faults.to_problem(TaskNotFound("no", facts={"status": 200, "code": "ok"}), instance_id="i")

    assert (status, problem["status"], problem["code"]) == (404, 404, "task.not_found")


def test_an_error_without_facts_has_no_data_in_03() -> None:
    assert faults.to_jsonrpc(TaskNotFound("no"), version="0.3") == {"code": -32001, "message": "Task not found: no"}
    assert json.dumps(faults.to_rest(TaskNotFound("no")))
