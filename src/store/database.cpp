#include "store/database.h"

#include <chrono>
#include <filesystem>
#include <thread>

namespace rafter::store {
namespace {

constexpr int kBusyMilliseconds = 10000;

base::Status migrate(SQLite::Database& database, const std::string& path,
                     std::span<const char* const> migrations) {
  const int newest = static_cast<int>(migrations.size());
  // Checked without a lock first: nearly every opening finds the tables as they should be.
  if (database.execAndGet("PRAGMA user_version").getInt() == newest) return {};
  SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
  const int version = database.execAndGet("PRAGMA user_version").getInt();
  if (version > newest) {
    return base::Error{base::ErrorCode::unsupported,
                       fmt::format("the file is of version {}, this program knows {}", version, newest), path,
                       "use the newer rafter, or move the file away"};
  }
  for (int n = version; n < newest; ++n) database.exec(migrations[static_cast<size_t>(n)]);
  database.exec(fmt::format("PRAGMA user_version = {}", newest));
  transaction.commit();
  return {};
}

// Puts the file into WAL mode, which it then keeps. The change needs the file alone, and SQLite does not call
// the busy handler while a reader waits to become that one: of several processes that open a new file at the
// same moment, all but one are told at once that it is locked. So wait here, as long as the busy handler
// would.
void enter_wal_mode(SQLite::Database& database) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(kBusyMilliseconds);
  for (;;) {
    try {
      database.exec("PRAGMA journal_mode = WAL");
      return;
    } catch (const SQLite::Exception& failure) {
      if (failure.getErrorCode() != SQLITE_BUSY || std::chrono::steady_clock::now() >= deadline) throw;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

base::Result<std::unique_ptr<SQLite::Database>> open_database(const std::string& path,
                                                              std::span<const char* const> migrations) {
  std::error_code failed;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, failed);
  if (failed) {
    return base::Error{base::ErrorCode::io, "cannot create the folder: " + failed.message(), folder.string(),
                       ""};
  }
  using Opened = base::Result<std::unique_ptr<SQLite::Database>>;
  return guarded(path, [&]() -> Opened {
    auto database = std::make_unique<SQLite::Database>(path, SQLite::OPEN_READWRITE | SQLite::OPEN_CREATE,
                                                       kBusyMilliseconds);
    enter_wal_mode(*database);
    database->exec("PRAGMA synchronous = NORMAL; PRAGMA foreign_keys = ON");
    RAFTER_TRY(migrate(*database, path, migrations));
    return database;
  });
}

}  // namespace rafter::store
