// Planted faults in a stream: the checker of its grammar must see every one.
#include <gtest/gtest.h>

#include "tests/support/stream_grammar.h"

namespace rafter::testing {
namespace {

std::string chunk(const std::string& delta, const std::string& reason = "null", const std::string& id = "a") {
  return fmt::format(
      "data: {{\"id\":\"{}\",\"object\":\"chat.completion.chunk\",\"created\":5,\"model\":\"m\","
      "\"choices\":[{{\"index\":0,\"delta\":{},\"finish_reason\":{}}}]}}\n\n",
      id, delta, reason);
}

const std::string kRole = chunk(R"({"role":"assistant","content":""})");
const std::string kText = chunk(R"({"content":"Hello"})");
const std::string kEnd = chunk("{}", "\"stop\"");
const std::string kUsage =
    "data: {\"id\":\"a\",\"object\":\"chat.completion.chunk\",\"created\":5,\"model\":\"m\",\"choices\":[],"
    "\"usage\":{}}\n\n";
const std::string kComment = ": queued 2\n\n";
const std::string kDone = "data: [DONE]\n\n";

TEST(StreamMutants, NoFaultIsSeenWhereThereIsNone) {
  EXPECT_EQ(stream_fault(kRole + kText + kEnd + kDone), "");
  EXPECT_EQ(stream_fault(kComment + kRole + kComment + kText + kText + kEnd + kUsage + kDone), "");
  EXPECT_EQ(stream_fault(kRole + kEnd + kDone), "");
}

TEST(StreamMutants, EveryFaultIsSeen) {
  const std::pair<std::string, const char*> faults[] = {
      {kRole + kText + kEnd, "no [DONE]"},
      {kRole + kText + kDone, "before the finish"},
      {kText + kEnd + kDone, "role"},
      {kRole + kRole + kEnd + kDone, "role"},
      {kRole + kEnd + kText + kDone, "behind the finish"},
      {kRole + kEnd + kEnd + kDone, "behind the finish"},
      {kRole + chunk(R"({"content":"x"})", "\"stop\"") + kDone, "beside the finish"},
      {kRole + kUsage + kEnd + kDone, "without choices"},
      {kRole + kText + kEnd + kDone + kComment, "behind [DONE]"},
      {kRole + kText + kEnd + kDone + kDone, "behind [DONE]"},
      {kRole + chunk(R"({"content":"x"})", "null", "b") + kEnd + kDone, "another id"},
      {kRole + kText.substr(0, kText.size() - 1) + kEnd + kDone, "no line of data"},
      {kRole + kText + kEnd + kDone.substr(0, kDone.size() - 1), "without its end"},
      {kRole + "data: {\"id\"\n\n" + kEnd + kDone, "no JSON"},
      {kRole + "event: x\n\n" + kEnd + kDone, "no line of data"},
  };
  for (const auto& [stream, fault] : faults)
    EXPECT_NE(stream_fault(stream).find(fault), std::string::npos) << fault << ": " << stream_fault(stream);
}

}  // namespace
}  // namespace rafter::testing
