"""What people's programs do, with the clients that they use: OpenAI's and Anthropic's Python SDKs against a server
whose model says "Hello there.", and calls get_weather(city="Oslo") when it is offered tools and has no result yet.

    python sdk_client.py URL
"""

import sys
import time

import anthropic
import openai

URL = sys.argv[1]
MESSAGES = [{"role": "user", "content": "Hi"}]
TOOL = {"name": "get_weather", "description": "d",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}  # fmt: skip
TOOLS = [{"type": "function", "function": TOOL}]
CLAUDE_TOOLS = [{"name": "get_weather", "description": "d", "input_schema": TOOL["parameters"]}]

client = openai.OpenAI(base_url=URL + "/v1", api_key="any", max_retries=0)
claude = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=0)


def chat():
    answer = client.chat.completions.create(model="m", messages=MESSAGES, logprobs=True, top_logprobs=2)
    assert answer.choices[0].message.content == "Hello there."
    assert answer.choices[0].finish_reason == "stop"
    assert len(answer.choices[0].logprobs.content) == answer.usage.completion_tokens
    chunks = list(client.chat.completions.create(model="m", messages=MESSAGES, stream=True,
                                                 stream_options={"include_usage": True}))  # fmt: skip
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == "Hello there.", text
    assert chunks[-1].usage.total_tokens > 0 and not chunks[-1].choices


def chat_tools():
    for stream in (False, True):
        if stream:
            with client.chat.completions.stream(model="m", messages=MESSAGES, tools=TOOLS) as events:
                answer = events.get_final_completion()
        else:
            answer = client.chat.completions.create(model="m", messages=MESSAGES, tools=TOOLS)
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls"
        call = choice.message.tool_calls[0]
        assert (call.function.name, call.function.arguments) == ("get_weather", '{"city":"Oslo"}'), call
    messages = MESSAGES + [choice.message.model_dump(exclude_none=True),
                           {"role": "tool", "tool_call_id": call.id, "content": "rain"}]  # fmt: skip
    for message in messages:  # what the streaming helper adds is not the protocol's
        for made in message.get("tool_calls", []):
            made["function"].pop("parsed_arguments", None)
    answer = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    assert answer.choices[0].message.content == "Hello there."


def errors():
    try:
        client.chat.completions.create(model="m", messages=MESSAGES, temperature=-1)
        raise AssertionError("no error")
    except openai.BadRequestError as error:
        assert error.param == "temperature", error
    try:
        client.models.retrieve("nothing")
        raise AssertionError("no error")
    except openai.NotFoundError:
        pass
    try:
        claude.messages.create(model="m", max_tokens=10, messages=[{"role": "user", "content": "Hi"}],
                               extra_body={"temperature": -1})  # fmt: skip
        raise AssertionError("no error")
    except anthropic.BadRequestError as error:
        assert "temperature" in str(error)


def completions_models_embeddings():
    assert client.completions.create(model="m", prompt="x").choices[0].text == "Hello there."
    assert client.models.list().data[0].id == "fake-model"
    try:
        client.embeddings.create(model="m", input="text")
        raise AssertionError("no error")
    except openai.BadRequestError:
        pass


def responses():
    first = client.responses.create(model="m", input="One", instructions="Be brief.")
    assert first.output_text == "Hello there."
    second = client.responses.create(model="m", input="Two", previous_response_id=first.id)
    third = client.responses.create(model="m", input="Three", previous_response_id=second.id)
    assert third.previous_response_id == second.id
    assert client.responses.retrieve(third.id).output_text == "Hello there."
    with client.responses.stream(model="m", input="Hi", tools=[{"type": "function", **TOOL, "strict": False}]) as events:
        types = [event.type for event in events]
        final = events.get_final_response()
    assert types[0] == "response.created" and types[-1] == "response.completed", types
    assert [item.type for item in final.output] == ["function_call"], final.output
    assert final.output[0].arguments == '{"city":"Oslo"}'
    try:
        client.responses.create(model="m", input="x", previous_response_id="resp_none")
        raise AssertionError("no error")
    except openai.NotFoundError:
        pass


def messages():
    answer = claude.messages.create(model="m", max_tokens=100, messages=MESSAGES)
    assert answer.content[0].text == "Hello there." and answer.stop_reason == "end_turn"
    stopped = claude.messages.create(model="m", max_tokens=100, messages=MESSAGES, stop_sequences=["there"])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "there")
    count = claude.messages.count_tokens(model="m", messages=MESSAGES)
    assert count.input_tokens == answer.usage.input_tokens
    with claude.messages.stream(model="m", max_tokens=1000, messages=MESSAGES, tools=CLAUDE_TOOLS) as stream:
        final = stream.get_final_message()
    assert final.stop_reason == "tool_use"
    call = final.content[-1]
    assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
    turns = MESSAGES + [{"role": "assistant", "content": final.content},
                        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}]  # fmt: skip
    done = claude.messages.create(model="m", max_tokens=1000, messages=turns, tools=CLAUDE_TOOLS)
    assert done.content[0].text == "Hello there."


def cancellation():
    """A stream that is left frees its row: the server's own figures say so."""
    stream = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "forever"}], stream=True)
    for count, _ in enumerate(stream):
        if count == 5:
            break
    stream.close()
    for _ in range(100):
        if client.get("/../stats", cast_to=object)["http"]["open_streams"] == 0:
            return
        time.sleep(0.05)
    raise AssertionError("the row is still there")


for check in (chat, chat_tools, errors, completions_models_embeddings, responses, messages, cancellation):
    check()
    print(check.__name__, "ok", flush=True)
