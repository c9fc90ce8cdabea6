"""Inputs for real chat templates: conversations with system text, tools, tool results, thinking and Unicode, and the
switches that templates look at."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Get the weather in a city.\n",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city, e.g. \"Zürich\""},
        "days": {"type": "integer", "description": "How many", "enum": [1, 3, 7]},
        "units": {"type": ["string", "null"], "description": "°C or °F", "nullable": True}},
        "required": ["city"]}}}
ORDER = {"type": "function", "function": {
    "name": "place_order", "description": "Orders <things> & more",
    "parameters": {"type": "object", "properties": {
        "items": {"type": "array", "description": "What", "items": {"type": "object", "properties": {
            "sku": {"type": "string", "description": "Code"}, "price": {"type": "number", "description": "€"}}}},
        "gift": {"type": "boolean", "description": "Wrap it?"}}, "required": ["items", "gift"]},
    "response": {"type": "object", "description": "the receipt"}}}
TOOLS = [WEATHER, ORDER]


def system(text): return {"role": "system", "content": text}
def user(text): return {"role": "user", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def call(number, name, arguments): return {"id": f"call{number:05d}", "type": "function", "function": {"name": name, "arguments": arguments}}
def result(number, name, text): return {"role": "tool", "tool_call_id": f"call{number:05d}", "name": name, "content": text}


CALL_1 = call(1, "get_weather", {"city": "Zürich", "days": 3})
CALL_2 = call(2, "place_order", {"items": [{"sku": "A<1>", "price": 1.0}, {"sku": "b", "price": 1e16}], "gift": False, "note": None})

CONVERSATIONS = {
    "one": [user("What is the capital of France?")],
    "turns": [system("You are terse."), user("Hi"), assistant("Hello!"), user(" How are you? \n"), assistant("Fine."), user("Bye")],
    "no_system": [user("Hi"), assistant("Hello!"), user("Again")],
    "answered": [user("Hi"), assistant("Hello!")],
    "unicode": [system("Ты — помощник. 😀"), user("naïve café 東京 \u00a0\u2003 «ß» <b>&amp;'\"</b>\t\\n"), assistant("Olá\r\nmundo"), user("<|im_end|></s>[INST]{{ x }}{% y %}")],
    "tool_call": [user("Weather?"), assistant("", tool_calls=[CALL_1]), result(1, "get_weather", "{\"temp\": 20.5}"), assistant("20.5 °C"), user("Thanks")],
    "tool_calls": [system("Use tools."), user("Do both"), assistant(None, tool_calls=[CALL_1, CALL_2]), result(1, "get_weather", "sunny"), result(2, "place_order", "ok")],
    "pending_call": [user("Weather?"), assistant("Let me look.", tool_calls=[CALL_1])],
    "tool_rounds": [user("x"), assistant("a", tool_calls=[CALL_1]), result(1, "get_weather", "r1"), assistant("b", tool_calls=[CALL_2]), result(2, "place_order", "r2"), assistant("done"), user("y"), assistant("z", tool_calls=[CALL_1]), result(1, "get_weather", "r3")],
    "thinking": [user("2+2?"), assistant("<think>\nIt is 4.\n</think>\n\n4"), user("3+3?"), assistant("6", reasoning_content="Six.\n", reasoning="Six."), user("4+4?")],
    "thinking_tool": [user("Weather?"), assistant("", reasoning_content="I need the tool.", reasoning="I need the tool.", tool_calls=[CALL_1]), result(1, "get_weather", "rain"), assistant("<think>wet</think>Rain.")],
    "parts": [user([{"type": "text", "text": "Look: "}, {"type": "image"}, {"type": "text", "text": "and this"}]), assistant([{"type": "text", "text": "I see."}]), user([{"type": "text", "text": "ok"}])],
    "system_only": [system("/no_think Be brief. /think")],
    "wrong_roles": [user("a"), user("b"), {"role": "critic", "content": "c"}],
    "empty": [],
    "null_content": [system(""), user(""), assistant(None), user("x")],
    "empty_texts": [system(" \n"), user("   \n"), assistant(""), user("")],
    "no_role": [user("Hi"), {"content": "from whom?"}],
    "null_role": [{"role": None, "content": "a"}, {"role": "", "content": "b"}],
    "no_content": [{"role": "system"}, {"role": "user"}, {"role": "assistant"}, user("x")],
    "odd_content": [user(5), assistant({"a": [1, None]}), user(["x", 2, {"type": "text"}, {"type": "image"}, {}]), assistant(True)],
    "string_arguments": [user("Weather?"), assistant("", tool_calls=[call(1, "get_weather", "{\"city\": \"Zürich\"}")]), result(1, "get_weather", "r")],
    "odd_calls": [user("a"), assistant("b", tool_calls=[]), user("c"), assistant("d", tool_calls=[{"name": "get_weather", "arguments": {}}]), result(1, "f", "r")],
    "no_arguments": [user("a"), assistant(None, tool_calls=[{"function": {"name": "f"}}, {"id": None, "type": "function", "function": {"name": "g", "arguments": None}}])],
    "tool_first": [result(1, "get_weather", "sunny"), user("x")],
    "odd_results": [user("a"), assistant("", tool_calls=[CALL_1]), {"role": "tool", "content": [{"type": "text", "text": "t"}]}, {"role": "tool", "content": {"temp": 1.0}}],
    "developer": [{"role": "developer", "content": "Be brief."}, user("Hi")],
    "late_system": [user("a"), assistant("b"), system("Now in French."), user("c")],
    "empty_thinking": [user("a"), assistant("b", reasoning_content="", thinking=""), user("c"), assistant("<think></think>"), user("d"), assistant("</think>e<think>")],
}

ODD = ("no_role", "null_role", "no_content", "odd_content", "odd_calls", "no_arguments", "tool_first", "empty_texts")

# Besides messages, bos_token and eos_token.
VARIANTS = {
    "plain": {},
    "prompt": {"add_generation_prompt": True},
    "tools": {"add_generation_prompt": True, "tools": TOOLS},
    "no_tools": {"add_generation_prompt": True, "tools": [], "enable_thinking": None},
    "none": {"add_generation_prompt": True, "tools": None, "documents": None},
    "think": {"add_generation_prompt": True, "enable_thinking": True, "thinking": True},
    "no_think": {"add_generation_prompt": True, "enable_thinking": False, "thinking": False, "tools": TOOLS},
    "extras": {"add_generation_prompt": True, "tools": [WEATHER], "tools_in_user_message": False, "date_string": "26 Jul 2024", "builtin_tools": ["code_interpreter", "brave_search"],
               "add_vision_id": True, "documents": [{"doc_id": 1, "title": "T", "text": "Text é"}], "controls": {"length": "short", "originality": "abstractive"}, "custom_tools": [ORDER]},
}


def inputs():
    """(name, variables) for every conversation in every variant that can matter to it."""
    for name, messages in CONVERSATIONS.items():
        for variant, extra in VARIANTS.items():
            if variant in ("none", "no_tools", "extras") and name not in ("one", "turns", "tool_calls"):
                continue
            if variant in ("think", "no_think") and name in ("wrong_roles", "empty", "answered"):
                continue
            if variant == "think" and name in ODD:
                continue
            if variant == "tools" and name in ("wrong_roles", "null_content"):
                continue
            yield f"{name}/{variant}", {"messages": messages, "bos_token": "<s>", "eos_token": "</s>", **extra}
