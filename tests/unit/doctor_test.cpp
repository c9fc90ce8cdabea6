// The doctor's readings of what the kernel writes, and its findings.
#include "lab/doctor.h"

#include <set>

#include <gtest/gtest.h>

#include "tests/support/scoped_variable.h"

namespace rafter::lab {
namespace {

TEST(Doctor, ReadsWhatTheKernelWrites) {
  EXPECT_EQ(chosen_of("always [madvise] never"), "madvise");
  EXPECT_EQ(chosen_of("[never]"), "never");
  EXPECT_EQ(chosen_of("always"), "");
  EXPECT_EQ(chosen_of("]["), "");
  EXPECT_EQ(count_of_list("0-3,8"), 5);
  EXPECT_EQ(count_of_list("7"), 1);
  for (const char* wrong : {"", "a", "3-", "3-1", "1-2-3", "-4", "0-99999999999", "1,,2"}) {
    EXPECT_EQ(count_of_list(wrong), 0) << wrong;
  }
}

TEST(Doctor, NamesEverySubject) {
  DoctorOptions options;
  options.folders = {"/none/such/folder"};
  options.measure = false;
  const auto report = examine_machine(options);
  ASSERT_TRUE(report.ok());
  std::set<std::string> subjects;
  for (const Finding& finding : report->findings) {
    subjects.insert(finding.subject);
    EXPECT_NE(finding.what, "");
    if (finding.level == FindingLevel::warning) {
      EXPECT_NE(finding.cost, "") << finding.what;
    }
  }
  for (const char* subject :
       {"isa", "cores", "memory_nodes", "huge_pages", "limits", "memory", "disk", "gpu"}) {
    EXPECT_TRUE(subjects.contains(subject)) << subject;
  }
  EXPECT_GT(report->cores, 0);
  EXPECT_GT(report->available_memory_bytes, 0);
}

TEST(Doctor, SaysThatASlowerTierWasAskedFor) {
  const testing::ScopedVariable forced("RAFTER_ISA", "portable");
  DoctorOptions options;
  options.measure = false;
  const auto report = examine_machine(options);
  ASSERT_TRUE(report.ok());
  EXPECT_EQ(report->findings[0].level, FindingLevel::warning);
}

}  // namespace
}  // namespace rafter::lab
