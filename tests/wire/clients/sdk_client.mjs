// As sdk_client.py, for programs in JavaScript: OpenAI's Node SDK and the Vercel AI SDK, against a server whose model
// says "Hello there.", and calls get_weather({city: "Oslo"}) when it is offered tools and has no result yet.
//
//     cd FOLDER_WITH_NODE_MODULES && node --input-type=module - URL < sdk_client.mjs
import assert from "node:assert/strict";
import OpenAI from "openai";
import { generateText, jsonSchema, stepCountIs, streamText, tool } from "ai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const url = process.argv[2];
const client = new OpenAI({ baseURL: url + "/v1", apiKey: "any", maxRetries: 0 });
const model = createOpenAICompatible({ name: "rafter", baseURL: url + "/v1", includeUsage: true })("m");
const messages = [{ role: "user", content: "Hi" }];
const forever = [{ role: "user", content: "forever" }];
const parameters = { type: "object", properties: { city: { type: "string" } } };
const tools = [{ type: "function", function: { name: "get_weather", description: "d", parameters } }];
const weather = { get_weather: tool({ description: "d", inputSchema: jsonSchema(parameters), execute: async () => "rain" }) };

async function noStreamIsLeft() {
  for (let i = 0; i < 100; ++i) {
    const stats = await (await fetch(url + "/stats")).json();
    if (stats.http.open_streams === 0) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  assert.fail("the row is still there");
}

async function openaiChat() {
  const answer = await client.chat.completions.create({ model: "m", messages });
  assert.equal(answer.choices[0].message.content, "Hello there.");
  let text = "", usage = null;
  const stream = await client.chat.completions.create({ model: "m", messages, stream: true, stream_options: { include_usage: true } });
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, "Hello there.");
  assert.ok(usage.total_tokens > 0);
}

async function openaiTools() {
  const whole = await client.chat.completions.create({ model: "m", messages, tools });
  const streamed = await client.chat.completions.stream({ model: "m", messages, tools }).finalChatCompletion();
  for (const answer of [whole, streamed]) {
    const { finish_reason, message } = answer.choices[0];
    assert.equal(finish_reason, "tool_calls");
    assert.deepEqual(JSON.parse(message.tool_calls[0].function.arguments), { city: "Oslo" });
  }
  const { message } = whole.choices[0];
  const done = await client.chat.completions.create({
    model: "m", tools, messages: [...messages, message, { role: "tool", tool_call_id: message.tool_calls[0].id, content: "rain" }],
  });
  assert.equal(done.choices[0].message.content, "Hello there.");
}

async function openaiErrors() {
  await assert.rejects(client.chat.completions.create({ model: "m", messages, temperature: -1 }),
    (error) => error instanceof OpenAI.BadRequestError && error.param === "temperature");
  await assert.rejects(client.models.retrieve("nothing"), OpenAI.NotFoundError);
}

async function openaiResponses() {
  const first = await client.responses.create({ model: "m", input: "One", instructions: "Be brief." });
  assert.equal(first.output_text, "Hello there.");
  const second = await client.responses.create({ model: "m", input: "Two", previous_response_id: first.id });
  assert.equal(second.previous_response_id, first.id);
  const types = [];
  for await (const event of await client.responses.create({ model: "m", input: "Hi", stream: true })) types.push(event.type);
  assert.equal(types[0], "response.created");
  assert.equal(types.at(-1), "response.completed");
}

async function openaiCancellation() {
  const stream = await client.chat.completions.create({ model: "m", messages: forever, stream: true });
  let count = 0;
  for await (const _ of stream) {
    if (++count === 5) break;
  }
  await noStreamIsLeft();
}

async function aiText() {
  const answer = await generateText({ model, prompt: "Hi" });
  assert.equal(answer.text, "Hello there.");
  assert.equal(answer.finishReason, "stop");
  const stream = streamText({ model, prompt: "Hi" });
  let text = "";
  for await (const piece of stream.textStream) text += piece;
  assert.equal(text, "Hello there.");
  assert.ok((await stream.usage).outputTokens > 0);
}

async function aiTools() {
  const answer = await generateText({ model, prompt: "Hi", tools: weather, stopWhen: stepCountIs(3) });
  assert.deepEqual(answer.steps[0].toolCalls[0].input, { city: "Oslo" });
  assert.equal(answer.text, "Hello there.");
  const stream = streamText({ model, prompt: "Hi", tools: weather, stopWhen: stepCountIs(3) });
  await stream.consumeStream();
  assert.equal((await stream.steps)[0].toolCalls[0].toolName, "get_weather");
  assert.equal(await stream.text, "Hello there.");
}

async function aiErrors() {
  await assert.rejects(generateText({ model, prompt: "Hi", temperature: -1, maxRetries: 0 }), (error) => error.statusCode === 400);
}

async function aiCancellation() {
  const abort = new AbortController();
  const stream = streamText({ model, messages: forever, abortSignal: abort.signal });
  let count = 0;
  try {
    for await (const _ of stream.textStream) {
      if (++count === 5) abort.abort();
    }
  } catch (error) {
    assert.equal(error.name, "AbortError");
  }
  await noStreamIsLeft();
}

for (const check of [openaiChat, openaiTools, openaiErrors, openaiResponses, openaiCancellation, aiText, aiTools, aiErrors, aiCancellation]) {
  await check();
  console.log(check.name, "ok");
}
process.exit(0);
