// Opening a SQLite file that several processes share, and bringing its tables up to date. For implementation
// files of store/ only: nothing above this folder sees SQLite.
#pragma once

#include <memory>
#include <span>
#include <string>

#include <SQLiteCpp/SQLiteCpp.h>
#include <SQLiteCpp/VariadicBind.h>
#include <sqlite3.h>

#include "base/result.h"

namespace rafter::store {

// Migration n (counted from 1) is migrations[n − 1]: SQL that takes the tables from version n − 1 to n.
// Migrations are only ever appended. The version is the file's user_version.
//
// Opens or creates the file (and its folder) in WAL mode with a busy timeout and runs what is missing, each
// in its own exclusive transaction, so two processes that open a new file at once are fine. Errors: io;
// unsupported (a newer program wrote the file).
base::Result<std::unique_ptr<SQLite::Database>> open_database(const std::string& path,
                                                              std::span<const char* const> migrations);

// Runs `body` and turns SQLite's exceptions into errors about `where`.
template <typename Body>
auto guarded(const std::string& where, const Body& body) -> decltype(body()) {
  try {
    return body();
  } catch (const SQLite::Exception& failure) {
    const bool damaged = failure.getErrorCode() == SQLITE_CORRUPT || failure.getErrorCode() == SQLITE_NOTADB;
    const bool locked = failure.getErrorCode() == SQLITE_BUSY || failure.getErrorCode() == SQLITE_LOCKED;
    const char* const hint = damaged  ? "move the file away, then `rafter scan` makes a new one"
                             : locked ? "another program holds it: try again when that is done"
                                      : "";
    return base::Error{base::ErrorCode::io, failure.what(), where, hint};
  }
}

}  // namespace rafter::store
