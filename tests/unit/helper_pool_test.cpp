// The helper threads behind the event loop: what runs when, what is refused, what is left at the end.
#include "serve/helper_pool.h"

#include <atomic>
#include <future>
#include <memory>

#include <gtest/gtest.h>

namespace rafter::serve {
namespace {

// Work that waits until it is let go.
class Gate {
 public:
  std::function<void()> work() {
    return [this] {
      ++entered_;
      open_.wait();
    };
  }
  void wait_for_entered(int count) const {
    while (entered_ < count) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  void open() { opened_.set_value(); }

 private:
  std::promise<void> opened_;
  std::shared_future<void> open_ = opened_.get_future().share();
  std::atomic<int> entered_ = 0;
};

bool runs(HelperPool& pool, size_t bytes) {
  std::promise<void> done;
  if (!pool.post([&] { done.set_value(); }, bytes)) return false;
  done.get_future().wait();
  return true;
}

TEST(HelperPool, SmallWorkPassesLargeWork) {
  Gate gate;
  HelperPool pool({.small_bytes = 100});
  ASSERT_TRUE(pool.post(gate.work(), 101));
  ASSERT_TRUE(pool.post([] {}, 1000));  // waits
  gate.wait_for_entered(1);
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(runs(pool, 100));
  gate.open();
  EXPECT_TRUE(runs(pool, 1000));
}

TEST(HelperPool, MoreThanTheLimitsIsRefused) {
  for (const HelperLimits limits :
       {HelperLimits{.jobs = 3, .bytes = 1000}, HelperLimits{.jobs = 100, .bytes = 30}}) {
    Gate gate;
    HelperPool pool(limits);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(pool.post(gate.work(), 10));
    const auto held = std::make_shared<int>(0);
    EXPECT_FALSE(pool.post([held] {}, 10));
    EXPECT_EQ(held.use_count(), 1);
    gate.open();
    while (!pool.post([] {}, 10)) std::this_thread::yield();
  }
}

TEST(HelperPool, OneThatIsLargerThanAllMayBeRunsAlone) {
  HelperPool pool({.bytes = 100});
  EXPECT_TRUE(runs(pool, 1'000'000));
}

TEST(HelperPool, WhatWaitsAtTheEndIsDropped) {
  const auto held = std::make_shared<int>(0);
  auto pool = std::make_unique<HelperPool>();
  Gate gate;
  ASSERT_TRUE(pool->post(gate.work(), 0));
  ASSERT_TRUE(pool->post(gate.work(), 0));
  gate.wait_for_entered(2);
  std::atomic<bool> ran = false;
  ASSERT_TRUE(pool->post([&ran, held] { ran = true; }, 0));
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    gate.open();
  });
  pool.reset();
  opener.join();
  EXPECT_FALSE(ran);
  EXPECT_EQ(held.use_count(), 1);
}

}  // namespace
}  // namespace rafter::serve
