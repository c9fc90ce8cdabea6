// The hub's protocol against a server with faults: what arrives is what the digests say, or nothing is there.
#include <filesystem>
#include <fstream>
#include <random>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mapped_file.h"
#include "hub/blob_file.h"
#include "hub/digest.h"
#include "hub/download.h"
#include "hub/garbage.h"
#include "hub/url_download.h"
#include "tests/support/hub_check.h"
#include "tests/support/hub_server.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_folder.h"

namespace rafter::hub {
namespace {

namespace fs = std::filesystem;
using testing::HubFault;
using testing::HubFile;
using testing::HubRequest;
using testing::HubServer;
using testing::ScopedVariable;
using testing::TempFolder;

constexpr const char* kCommit = "0123456789abcdef0123456789abcdef01234567";
constexpr const char* kName = "some-org/some.model";

std::string random_bytes(size_t size, unsigned seed) {
  std::mt19937 random(seed);
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random());
  return bytes;
}

std::string read_file(const fs::path& path) {
  const auto text = base::read_text_file(fs::path(path).string());
  return text.ok() ? *text : "(" + text.error().message() + ")";
}

class Hub : public ::testing::Test {
 protected:
  Hub() {
    settings_.endpoint = server_.endpoint();
    settings_.cache = cache_ / "hub";
    settings_.retry_milliseconds = 1;
    files_ = {{"config.json", "{}", false},
              {"model.safetensors", random_bytes(700'000, 1), true},
              {"sub/deep/notes.txt", "hello", false},
              {"same.txt", "hello", false},
              {"empty.json", "", false}};
    server_.add(kName, kCommit, files_);
    options_.connections = 3;
    options_.piece_bytes = 100'000;
  }

  base::Result<Snapshot> get(const std::string& revision = "main") {
    HttpClient client(nullptr);
    RAFTER_ASSIGN(RemoteRepository repository, fetch_repository(client, settings_, kName, revision));
    RAFTER_TRY(complete_files(client, settings_, repository));
    return download_files(settings_, repository, repository.files, revision, options_);
  }

  // Every file of the snapshot as the server has it; blobs named and linked as the hub's own tools do.
  void expect_complete() const {
    EXPECT_EQ(testing::wrong_in_snapshot(settings_.cache + "/models--some-org--some.model", kCommit, files_),
              std::vector<std::string>());
  }

  void expect_error(const base::Result<Snapshot>& result, base::ErrorCode code,
                    const std::string& text) const {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().code, code) << result.error().message();
    EXPECT_NE(result.error().message().find(text), std::string::npos) << result.error().message();
  }

  bool ref_exists() const { return fs::exists(settings_.cache + "/models--some-org--some.model/refs/main"); }

  TempFolder cache_;
  HubServer server_;
  HubSettings settings_;
  DownloadOptions options_;
  std::vector<HubFile> files_;
};

TEST(HubDigest, EqualsGitAndSha256) {
  EXPECT_EQ(HubServer::sha256(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(HubServer::git_sha1(""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(HubServer::git_sha1("hello"), "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0");
}

TEST(HubNames, OnlyTheHubsOwn) {
  for (const char* good : {"org/name", "gpt2", "a/b.c_d-e", "Qwen/Qwen3-0.6B"})
    EXPECT_TRUE(is_repository_name(good)) << good;
  for (const char* bad :
       {"", "/", "a/", "/b", "a/b/c", "../x", "a/..", "a/b--c", "a b/c", "a/b\n", ".a/b", "a/-b"}) {
    EXPECT_FALSE(is_repository_name(bad)) << bad;
  }
  for (const char* good : {"a", "a/b/c.json", "weird name (1).txt", "…/x"})
    EXPECT_TRUE(is_safe_path(good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", "..", "a/../b", "./a", "a\\b", "C:x", "a\nb"}) {
    EXPECT_FALSE(is_safe_path(bad)) << bad;
  }
  EXPECT_FALSE(is_safe_path(std::string("a\0b", 3)));
}

TEST(HubPatterns, AreTheHubsOwn) {
  EXPECT_TRUE(matches_pattern("a/b.json", "*.json"));
  EXPECT_TRUE(matches_pattern("model-00001-of-00002.safetensors", "model*.safetensors"));
  EXPECT_TRUE(matches_pattern("onnx/x/y", "onnx/"));
  EXPECT_TRUE(matches_pattern("a1", "a[0-9]"));
  EXPECT_FALSE(matches_pattern("ab", "a[!b]"));
  EXPECT_FALSE(matches_pattern("a.jsonl", "*.json"));
}

RemoteRepository repository_of(const std::vector<std::string>& paths) {
  RemoteRepository repository{kName, kCommit, {}};
  for (const std::string& path : paths)
    repository.files.push_back({path, 1, {DigestKind::sha256, std::string(64, 'a')}});
  return repository;
}

std::string chosen(const std::vector<std::string>& paths, const FileChoice& choice = {}) {
  const auto files = choose_files(repository_of(paths), choice);
  if (!files.ok()) return files.error().message();
  std::string list;
  for (const RemoteFile& file : files->files) list += (list.empty() ? "" : " ") + file.path;
  return list;
}

TEST(HubChoice, WhatAModelNeeds) {
  EXPECT_EQ(chosen({"README.md", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                    "config.json", "pytorch_model.bin", "consolidated.safetensors", "onnx/model.onnx",
                    "modeling.py", "merges.txt", "chat_template.jinja", "model.gguf",
                    "additional_chat_templates/rag.jinja", "other/x.jinja"}),
            "additional_chat_templates/rag.jinja chat_template.jinja config.json merges.txt "
            "model-00001-of-00002.safetensors "
            "model-00002-of-00002.safetensors");
  EXPECT_EQ(chosen({"weights.safetensors", "config.json"}), "config.json weights.safetensors");
  EXPECT_NE(chosen({"pytorch_model.bin", "config.json"}).find("no safetensors or GGUF"), std::string::npos);
}

TEST(HubChoice, OneGguf) {
  const std::vector<std::string> several = {"m-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-Q8_0.gguf",
                                            "mmproj-f16.gguf", "m.imatrix.gguf"};
  EXPECT_EQ(chosen(several), "m-Q4_K_M.gguf");
  EXPECT_EQ(chosen(several, {{}, {}, "q8_0"}), "m-Q8_0.gguf");
  EXPECT_NE(chosen(several, {{}, {}, "q4_k"}).find("m-Q4_K_M.gguf, m-Q4_K_S.gguf"), std::string::npos);
  EXPECT_NE(chosen(several, {{}, {}, "q2"}).find("there are: m-Q4_K_M.gguf"), std::string::npos);
  EXPECT_EQ(chosen({"a-Q8_0.gguf"}), "a-Q8_0.gguf");
  EXPECT_NE(chosen({"a-q2.gguf", "b-q3.gguf"}).find("name one"), std::string::npos);
  EXPECT_EQ(chosen({"x/m-00001-of-00002.gguf", "x/m-00002-of-00002.gguf"}),
            "x/m-00001-of-00002.gguf x/m-00002-of-00002.gguf");
  EXPECT_EQ(chosen(several, {{"*S.gguf"}, {}, ""}), "m-Q4_K_S.gguf");
  EXPECT_EQ(chosen({"m-Q4_K_M.gguf", "x-Q4_K_M.gguf"}, {{}, {"x*"}, ""}), "m-Q4_K_M.gguf");
}

TEST_F(Hub, FetchesTheLayoutOfTheHubsOwnTools) {
  int64_t last = 0, total = 0;
  options_.progress = [&](int64_t done, int64_t all) { last = done, total = all; };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
  EXPECT_EQ(last, total);
  EXPECT_EQ(read_file(settings_.cache + "/models--some-org--some.model/refs/main"), kCommit);
  EXPECT_EQ(server_.count("/store/"), 7);  // pieces of 100,000 bytes
  const int before = server_.count("resolve");
  const auto again = get();
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->bytes_fetched, 0);
  EXPECT_EQ(server_.count("resolve"), before);
}

TEST_F(Hub, RevisionsAndCommits) {
  server_.add(kName, kCommit, files_, "feature/x");
  ASSERT_TRUE(get("feature/x").ok());
  EXPECT_EQ(read_file(settings_.cache + "/models--some-org--some.model/refs/feature/x"), kCommit);
  ASSERT_TRUE(get(kCommit).ok());
  expect_error(get("nope"), base::ErrorCode::not_found, "no such revision");
  expect_error(get("../x"), base::ErrorCode::invalid_argument, "not a branch");
  const auto cached = cached_snapshot(settings_, kName, "feature/x");
  ASSERT_TRUE(cached.ok());
  ASSERT_EQ(cached->files.size(), files_.size());
  EXPECT_EQ(cached->files[3].first.path, "same.txt");
  EXPECT_EQ(cached->files[4].first.path, "sub/deep/notes.txt");
  EXPECT_FALSE(cached_snapshot(settings_, kName, "main").ok());
}

TEST_F(Hub, DigestsThatTheListingLacksAreAskedFor) {
  server_.listing = [](std::string text) {
    for (const char* key : {"\"blobId\"", "\"sha256\"", "\"lfs\"", "\"size\""}) {
      for (size_t at = 0; (at = text.find(key, at)) != std::string::npos;) text[at + 1] = '_';
    }
    return text;
  };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
}

TEST_F(Hub, ConnectionsCutAnywhereAreContinued) {
  std::atomic<int> cuts{0};
  server_.fault = [&](const HubRequest& request, int nth) {
    HubFault fault;
    if (request.target.find("/store/") != std::string::npos && ++cuts <= 12)
      fault.cut_after = 13'000 * (nth % 5);
    return fault;
  };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
  EXPECT_GT(cuts, 12);
}

TEST_F(Hub, PassingFailuresAreTriedAgain) {
  settings_.retries = 9;  // each of the two addresses fails three times
  server_.fault = [](const HubRequest&, int nth) {
    HubFault fault;
    if (nth == 0) fault.status = 503;
    if (nth == 1) fault.status = 429, fault.extra_headers = "Retry-After: 0\r\n";
    if (nth == 2) fault.raw = "HTTP/1.1 garbage\r\n";
    return fault;
  };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
}

TEST_F(Hub, LastingFailuresAreErrors) {
  server_.fault = [](const HubRequest& request, int) {
    HubFault fault;
    if (request.target.find("/store/") != std::string::npos) fault.status = 500;
    return fault;
  };
  expect_error(get(), base::ErrorCode::io, "status 500");
  EXPECT_FALSE(ref_exists());
  server_.fault = [](const HubRequest&, int) {
    return HubFault{.status = 404, .extra_headers = "X-Error-Code: RepoNotFound\r\n"};
  };
  expect_error(get(), base::ErrorCode::not_found, "no such repository");
}

TEST_F(Hub, WrongContentNeverArrives) {
  server_.fault = [](const HubRequest& request, int) {
    HubFault fault;
    if (request.target.find("/store/") != std::string::npos) fault.flip_byte = 345'678;
    return fault;
  };
  expect_error(get(), base::ErrorCode::invalid_data, "checksum");
  EXPECT_FALSE(ref_exists());
  EXPECT_FALSE(fs::exists(settings_.cache + "/models--some-org--some.model/snapshots/" + kCommit +
                          "/model.safetensors"));
  server_.fault = nullptr;
  ASSERT_TRUE(get().ok());
  expect_complete();
}

TEST_F(Hub, WrongLengthsAreErrors) {
  server_.fault = [](const HubRequest& request, int) {
    HubFault fault;
    if (request.target.find("config.json") != std::string::npos) fault.extra_bytes = 1000;
    return fault;
  };
  expect_error(get(), base::ErrorCode::invalid_data, "more than the 2 bytes");
  server_.fault = nullptr;
  server_.listing = [](std::string text) {  // the listing lies about a size
    const size_t at = text.find("700000");
    return text.replace(at, 6, "700001");
  };
  const auto lied = get();
  ASSERT_FALSE(lied.ok());
  EXPECT_FALSE(ref_exists());
}

TEST_F(Hub, AServerWithoutRanges) {
  server_.fault = [](const HubRequest&, int) { return HubFault{.ignore_range = true}; };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
}

TEST_F(Hub, AServerThatForgetsRangesMidway) {
  server_.fault = [](const HubRequest&, int nth) {
    HubFault fault;
    fault.ignore_range = nth % 2 == 1;
    if (nth == 3) fault.cut_after = 50'000;
    return fault;
  };
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
}

TEST_F(Hub, HostileListings) {
  const auto with_name = [&](const std::string& name) {
    server_.listing = [name](std::string text) {
      const std::string from = "\"rfilename\":\"config.json\"";
      return text.replace(text.find(from), from.size(), "\"rfilename\":\"" + name + "\"");
    };
  };
  for (const char* name :
       {"../../../escape", "/etc/passwd", "a/../b", "a\\\\b", "a\\u0000b", "", "C:\\\\x"}) {
    with_name(name);
    expect_error(get(), base::ErrorCode::invalid_data, "not safe");
  }
  EXPECT_FALSE(fs::exists(cache_ / "escape"));
  for (const char* body : {"", "[]", "{", "{\"sha\":\"../x\",\"siblings\":[]}", "{\"sha\":1}", "<html>"}) {
    server_.listing = [body](const std::string&) { return std::string(body); };
    expect_error(get(), base::ErrorCode::invalid_data, "no listing");
  }
  server_.listing = [](std::string text) {
    const size_t at = text.find("\"sha256\":\"") + 10;
    return text.replace(at, 12, "../../../../");
  };
  expect_error(get(), base::ErrorCode::invalid_data, "digest");
  server_.fault = [](const HubRequest&, int) {
    return HubFault{.raw = "HTTP/1.1 200 OK\r\nX: " + std::string(1 << 20, 'x') + "\r\n\r\n"};
  };
  EXPECT_FALSE(get().ok());
  server_.fault = [&](const HubRequest& request, int) { return HubFault{.redirect = request.target}; };
  expect_error(get(), base::ErrorCode::invalid_data, "redirects");
  server_.fault = [&](const HubRequest&, int) { return HubFault{.redirect = "file:///etc/passwd"}; };
  expect_error(get(), base::ErrorCode::invalid_data, "redirect");
}

TEST_F(Hub, TheTokenStaysWithItsHost) {
  settings_.token = "hf_secret";
  server_.token = "hf_secret";
  HubServer other;  // another port is another server
  other.add("x", kCommit, {});
  server_.fault = [&](const HubRequest& request, int) {
    HubFault fault;
    if (request.target.find("config.json") != std::string::npos)
      fault.redirect = other.endpoint() + "/elsewhere";
    return fault;
  };
  EXPECT_FALSE(get().ok());
  ASSERT_GE(other.requests().size(), 1u);
  for (const HubRequest& request : other.requests()) EXPECT_FALSE(request.headers.contains("authorization"));
  server_.fault = nullptr;
  ASSERT_TRUE(get().ok());
  settings_.token = "";
  fs::remove_all(settings_.cache);
  expect_error(get(), base::ErrorCode::not_found, "gated");
  settings_.token = "wrong";
  expect_error(get(), base::ErrorCode::not_found, "may not read");
}

TEST_F(Hub, StopsWhenTold) {
  std::atomic<bool> stopping{false};
  options_.stopping = &stopping;
  server_.fault = [&](const HubRequest& request, int) {
    if (request.target.find("/store/") != std::string::npos) stopping = true;
    return HubFault{.delay_milliseconds = 300};
  };
  expect_error(get(), base::ErrorCode::interrupted, "interrupted");
  EXPECT_FALSE(ref_exists());
}

// A process that is killed at a random moment, over and over, then one that is not: nothing was corrupted,
// and what had arrived was not fetched again.
TEST_F(Hub, KilledAnywhereItGoesOn) {
  files_[1].content = random_bytes(3'000'000, 9);
  server_.add(kName, kCommit, files_);
  server_.fault = [](const HubRequest&, int) { return HubFault{.delay_milliseconds = 2}; };
  std::mt19937 random(3);
  for (int round = 0; round < 12; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      const auto done = get();
      ::_exit(done.ok() ? 0 : 1);
    }
    ::usleep(static_cast<useconds_t>(5000 + random() % 40000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
  }
  const auto snapshot = get();
  ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
  expect_complete();
  EXPECT_LT(server_.body_bytes_sent(), 3'000'000 + 13 * 4 * 200'000);
}

TEST_F(Hub, FourProcessesFetchOnce) {
  server_.fault = [](const HubRequest&, int) { return HubFault{.delay_milliseconds = 5}; };
  std::vector<pid_t> children;
  for (int i = 0; i < 4; ++i) {
    children.push_back(::fork());
    if (children.back() == 0) {
      const auto done = get();
      if (!done.ok()) std::fprintf(stderr, "%s\n", done.error().message().c_str());
      ::_exit(done.ok() ? 0 : 1);
    }
  }
  for (pid_t child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  expect_complete();
  EXPECT_EQ(server_.count("/store/"), 7);
  EXPECT_EQ(server_.count("resolve/"), 7 + 4 - 1);  // "hello" stands twice and is fetched once
}

TEST_F(Hub, DiskSpaceIsLookedAtFirst) {
  EXPECT_TRUE(check_disk_space(cache_.path(), 1000).ok());
  const base::Status status = check_disk_space(cache_.path(), int64_t{1} << 60);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.error().message().find("are needed"), std::string::npos);
  server_.listing = [](std::string text) {
    constexpr std::string_view kHuge = "70000000000000";
    for (size_t at = 0; (at = text.find("700000", at)) != std::string::npos; at += kHuge.size()) {
      text.replace(at, 6, kHuge);
    }
    return text;
  };
  expect_error(get(), base::ErrorCode::io, "are needed");
  EXPECT_EQ(server_.count("resolve"), 0);
}

TEST_F(Hub, AFolderThatCannotBeWritten) {
  if (::geteuid() == 0) settings_.cache = "/proc/none";  // root may write nearly everywhere
  expect_error(get(), base::ErrorCode::io, "/");
}

TEST_F(Hub, PiecesOfAnotherListAreNotTrusted) {
  CacheLayout layout(settings_.cache, kName);
  ASSERT_TRUE(layout.create_folders().ok());
  const std::string digest = HubServer::sha256(files_[1].content);
  for (const std::string& list :
       {std::string("1 bytes in pieces of 7\n0\n1\n"),
        std::string("700000 bytes in pieces of 100000\n0\n1\n2\n"), std::string("\xFF\xFE"),
        std::string("700000 bytes in pieces of 100000\n99999999\n-1\nx\n4")}) {
    std::ofstream(layout.partial(digest)) << std::string(50'000, 'z');
    std::ofstream(layout.pieces(digest)) << list;
    const auto snapshot = get();
    ASSERT_TRUE(snapshot.ok()) << snapshot.error().message();
    expect_complete();
    fs::remove_all(settings_.cache);
    ASSERT_TRUE(layout.create_folders().ok());
  }
}

class Url : public Hub {
 protected:
  base::Result<UrlFile> fetch(const std::string& sha256 = "") {
    UrlDownloadOptions options;
    options.sha256 = sha256;
    return download_url(settings_, server_.endpoint() + "/some-org/some.model/resolve/main/notes%20x.bin",
                        cache_ / "urls", options);
  }
  void SetUp() override {
    content_ = random_bytes(300'000, 4);
    server_.add(kName, kCommit, {{"notes x.bin", content_, false}});
  }
  std::string content_;
};

TEST_F(Url, FetchesResumesAndChecks) {
  server_.fault = [](const HubRequest&, int nth) { return HubFault{.cut_after = nth < 3 ? 70'000 : -1}; };
  settings_.retries = 1;
  const auto broken = fetch();
  ASSERT_FALSE(broken.ok());
  const int64_t before = server_.body_bytes_sent();
  const auto file = fetch(HubServer::sha256(content_));
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_EQ(file->path, cache_ / "urls/notes x.bin");
  EXPECT_TRUE(read_file(file->path) == content_);
  EXPECT_LT(server_.body_bytes_sent() - before, 300'000);
  EXPECT_FALSE(fs::exists(file->path + ".part"));
  EXPECT_TRUE(fetch()->was_present);
  EXPECT_FALSE(fetch(std::string(64, '0')).ok());
}

TEST_F(Url, OtherContentIsNotGoneOnWith) {
  server_.fault = [](const HubRequest&, int) { return HubFault{.cut_after = 70'000}; };
  settings_.retries = 0;
  ASSERT_FALSE(fetch().ok());
  content_ = random_bytes(300'000, 5);  // the file changed: its tag too
  server_.add(kName, kCommit, {{"notes x.bin", content_, false}});
  server_.fault = nullptr;
  const auto file = fetch();
  ASSERT_TRUE(file.ok()) << file.error().message();
  EXPECT_TRUE(read_file(file->path) == content_);
}

TEST_F(Url, WrongChecksumsAndNames) {
  const auto wrong = fetch(std::string(64, '0'));
  ASSERT_FALSE(wrong.ok());
  EXPECT_NE(wrong.error().message().find("checksum"), std::string::npos);
  EXPECT_FALSE(fs::exists(cache_ / "urls/notes x.bin"));
  for (const char* bad : {"https://x.org/", "https://x.org/a/..", "ftp://x.org/a.gguf", "https://x.org/a%2fb",
                          "nonsense", "https://x.org/%2e%2e"}) {
    EXPECT_FALSE(file_name_of(bad).ok()) << bad;
  }
  EXPECT_EQ(*file_name_of("https://x.org/a/b.gguf?download=true#x"), "b.gguf");
}

class Gc : public Hub {
 protected:
  fs::path folder() const { return fs::path(settings_.cache) / "models--some-org--some.model"; }
  GarbagePlan plan() const { return plan_garbage(settings_.cache, std::chrono::seconds(0)); }
  int count(GarbageKind kind) const {
    int count = 0;
    for (const Garbage& item : plan().items) count += item.kind == kind ? 1 : 0;
    return count;
  }
};

TEST_F(Gc, KeepsWhatIsUsed) {
  ASSERT_TRUE(get().ok());
  for (const Garbage& item : plan().items) EXPECT_EQ(item.kind, GarbageKind::stale_lock) << item.path;
  EXPECT_TRUE(plan_garbage(settings_.cache).items.empty());  // all of it was just written
}

TEST_F(Gc, FindsAndRemovesTheRest) {
  ASSERT_TRUE(get().ok());
  const std::string newer(40, 'b');
  std::vector<HubFile> changed = files_;
  changed[1].content = random_bytes(5000, 8);
  server_.add(kName, newer, changed);
  ASSERT_TRUE(get().ok());
  std::ofstream(folder() / "blobs/abc.incomplete") << std::string(9000, 'x');
  fs::create_symlink("../../blobs/gone", folder() / "snapshots" / newer / "broken.json");
  EXPECT_EQ(count(GarbageKind::old_snapshot), 1);
  EXPECT_EQ(count(GarbageKind::unreferenced_blob), 1);
  EXPECT_EQ(count(GarbageKind::incomplete), 1);
  EXPECT_EQ(count(GarbageKind::broken_link), 1);
  EXPECT_GT(plan().bytes(), 700'000);
  EXPECT_TRUE(fs::exists(folder() / "snapshots" / kCommit));  // a plan removes nothing
  const auto removed = remove_garbage(settings_.cache, plan(), std::chrono::seconds(0));
  ASSERT_TRUE(removed.ok());
  EXPECT_FALSE(fs::exists(folder() / "snapshots" / kCommit));
  EXPECT_TRUE(plan().items.empty());
  files_ = changed;
  for (const HubFile& file : files_)
    EXPECT_TRUE(read_file(folder() / "snapshots" / newer / file.path) == file.content);
}

TEST_F(Gc, AnOldRevisionWithFilesOfItsOwnStays) {
  ASSERT_TRUE(get().ok());
  server_.add(kName, std::string(40, 'b'), {files_[0]});
  ASSERT_TRUE(get().ok());
  EXPECT_EQ(count(GarbageKind::old_snapshot), 0);
}

TEST_F(Gc, LeavesRepositoriesInUseAlone) {
  ASSERT_TRUE(get().ok());
  std::ofstream(folder() / "blobs/abc.incomplete") << "x";
  CacheLayout layout(settings_.cache, kName);
  const auto lock = FileLock::try_lock(layout.in_use_lock(), FileLock::Mode::shared);
  ASSERT_TRUE(lock.ok() && lock->has_value());
  EXPECT_TRUE(plan().items.empty());
  EXPECT_EQ(plan().skipped, std::vector<std::string>{"models--some-org--some.model"});
}

TEST(HubSettingsTest, ComeFromTheEnvironment) {
  const ScopedVariable endpoint("HF_ENDPOINT", "https://mirror.example/"), token("HF_TOKEN", "hf_x\n"),
      offline("HF_HUB_OFFLINE", "yes");
  const auto settings = settings_from_environment("/c");
  ASSERT_TRUE(settings.ok());
  EXPECT_EQ(settings->endpoint, "https://mirror.example");
  EXPECT_EQ(settings->token, "hf_x");
  EXPECT_TRUE(settings->offline);
  const ScopedVariable bad("HF_TOKEN", "hf_x\r\nHost: evil");
  const auto refused = settings_from_environment("/c");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().message().find("evil"), std::string::npos);
  const ScopedVariable nonsense("HF_ENDPOINT", "ftp://x"), none("HF_TOKEN", "");
  EXPECT_FALSE(settings_from_environment("/c").ok());
}

}  // namespace
}  // namespace rafter::hub
