#include "store/registry.h"

#include <algorithm>
#include <ctime>
#include <filesystem>

#include "base/utf8.h"
#include "store/database.h"
#include "store/paths.h"

namespace rafter::store {
namespace {

constexpr const char* kMigrations[] = {
    // 1: models by path, and the names users give them
    "CREATE TABLE models ("
    "  path TEXT PRIMARY KEY, name TEXT NOT NULL, container TEXT NOT NULL, architecture TEXT NOT NULL,"
    "  quantization TEXT NOT NULL, parameters INTEGER NOT NULL, bytes INTEGER NOT NULL, context INTEGER NOT "
    "NULL,"
    "  supported INTEGER NOT NULL, added_at INTEGER NOT NULL, missing INTEGER NOT NULL DEFAULT 0) STRICT;"
    "CREATE TABLE aliases ("
    "  alias TEXT PRIMARY KEY, path TEXT NOT NULL REFERENCES models(path) ON DELETE CASCADE) STRICT;"
    "CREATE INDEX aliases_by_path ON aliases(path);",
    // 2: which revision it is, and what it can do
    "ALTER TABLE models ADD COLUMN revision TEXT NOT NULL DEFAULT '';"
    "ALTER TABLE models ADD COLUMN capabilities TEXT NOT NULL DEFAULT '';",
    // 3: the weight files that it needs
    "CREATE TABLE weight_files ("
    "  path TEXT NOT NULL REFERENCES models(path) ON DELETE CASCADE, file TEXT NOT NULL,"
    "  PRIMARY KEY (path, file)) STRICT;",
};

constexpr const char* kColumns =
    "path, name, container, architecture, quantization, parameters, bytes, context, supported, added_at, "
    "missing, revision, capabilities";

ModelRecord record_of(SQLite::Statement& row) {
  ModelRecord record;
  record.path = row.getColumn(0).getString();
  record.name = row.getColumn(1).getString();
  record.container = row.getColumn(2).getString();
  record.architecture = row.getColumn(3).getString();
  record.quantization = row.getColumn(4).getString();
  record.parameters = row.getColumn(5).getInt64();
  record.bytes = row.getColumn(6).getInt64();
  record.context = row.getColumn(7).getInt64();
  record.supported = row.getColumn(8).getInt() != 0;
  record.added_at = row.getColumn(9).getInt64();
  record.missing = row.getColumn(10).getInt() != 0;
  record.revision = row.getColumn(11).getString();
  record.capabilities = row.getColumn(12).getString();
  return record;
}

// ASCII letters only: model names are ASCII in practice, and other letters compare exactly.
std::string lowercase(std::string text) {
  for (char& c : text) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

std::string label_of(const ModelRecord& record) {
  return record.aliases.empty() ? record.name : record.aliases.front();
}

base::Error not_found(const std::string& query) {
  return base::Error{
      base::ErrorCode::not_found, "no such model or path", query,
      "`rafter models` lists what is known, `rafter scan` looks again, `rafter add NAME PATH` adds one"};
}

base::Error ambiguous(const std::string& query, const std::vector<const ModelRecord*>& candidates) {
  constexpr size_t kShown = 8;
  std::string list;
  for (size_t i = 0; i < std::min(candidates.size(), kShown); ++i) {
    list += (i == 0 ? "" : ", ") + label_of(*candidates[i]);
  }
  if (candidates.size() > kShown) list += fmt::format(" and {} more", candidates.size() - kShown);
  // Models of one name at different places can only be told apart by path.
  const bool same_name = std::all_of(candidates.begin(), candidates.end(), [&](const ModelRecord* candidate) {
    return label_of(*candidate) == label_of(*candidates.front());
  });
  const char* hint = same_name ? "give the path; `rafter models` shows it" : "give more of the name";
  return base::Error{base::ErrorCode::invalid_argument,
                     fmt::format("the name matches {} models: {}", candidates.size(), list), query, hint};
}

base::Status check_alias(const std::string& alias) {
  constexpr size_t kLongest = 128;
  const bool bad = alias.empty() || alias.size() > kLongest || !base::is_valid_utf8(alias) ||
                   std::any_of(alias.begin(), alias.end(), [](char c) {
                     return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
                   });
  if (!bad) return {};
  return base::Error{base::ErrorCode::invalid_argument,
                     "a name must be 1 to 128 bytes of UTF-8 without '/' or control characters",
                     alias.substr(0, kLongest), ""};
}

}  // namespace

std::vector<std::string> missing_files(const ModelRecord& record) {
  std::vector<std::string> missing;
  for (const std::string& file : record.weight_files) {
    std::error_code failed;
    if (!std::filesystem::exists(file, failed)) missing.push_back(file);
  }
  return missing;
}

struct ModelRegistry::Impl {
  std::string path;
  std::unique_ptr<SQLite::Database> database;
};

ModelRegistry::ModelRegistry(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ModelRegistry::ModelRegistry(ModelRegistry&&) noexcept = default;
ModelRegistry& ModelRegistry::operator=(ModelRegistry&&) noexcept = default;
ModelRegistry::~ModelRegistry() = default;

base::Result<ModelRegistry> ModelRegistry::open(const std::string& path) {
  RAFTER_ASSIGN(auto database, open_database(path, kMigrations));
  return ModelRegistry(std::make_unique<Impl>(Impl{path, std::move(database)}));
}

base::Result<ModelRegistry> ModelRegistry::open_default() {
  RAFTER_ASSIGN(std::string folder, cache_directory());
  return open(folder + "/registry.sqlite");
}

base::Status ModelRegistry::put(const ModelRecord& record) {
  return guarded(impl_->path, [&]() -> base::Status {
    SQLite::Transaction transaction(*impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement insert(
        *impl_->database,
        fmt::format(
            "INSERT INTO models ({}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?, ?) ON CONFLICT(path) DO "
            "UPDATE "
            "SET "
            "name = excluded.name, container = excluded.container, architecture = excluded.architecture, "
            "quantization = excluded.quantization, parameters = excluded.parameters, bytes = excluded.bytes, "
            "context = excluded.context, supported = excluded.supported, missing = 0, "
            "revision = excluded.revision, capabilities = excluded.capabilities",
            kColumns));
    SQLite::bind(insert, record.path, record.name, record.container, record.architecture, record.quantization,
                 record.parameters, record.bytes, record.context, record.supported ? 1 : 0,
                 record.added_at != 0 ? record.added_at : static_cast<int64_t>(std::time(nullptr)),
                 record.revision, record.capabilities);
    insert.exec();
    SQLite::Statement forget(*impl_->database, "DELETE FROM weight_files WHERE path = ?");
    SQLite::bind(forget, record.path);
    forget.exec();
    SQLite::Statement add(*impl_->database, "INSERT OR IGNORE INTO weight_files (path, file) VALUES (?, ?)");
    for (const std::string& file : record.weight_files) {
      add.reset();
      SQLite::bind(add, record.path, file);
      add.exec();
    }
    transaction.commit();
    return {};
  });
}

base::Status ModelRegistry::set_alias(const std::string& alias, const std::string& path) {
  RAFTER_TRY(check_alias(alias));
  return guarded(impl_->path, [&]() -> base::Status {
    SQLite::Statement insert(*impl_->database,
                             "INSERT INTO aliases (alias, path) SELECT ?, path FROM models WHERE path = ? "
                             "ON CONFLICT(alias) DO UPDATE SET path = excluded.path");
    SQLite::bind(insert, alias, path);
    if (insert.exec() == 0) return not_found(path);
    return {};
  });
}

base::Status ModelRegistry::remove(const std::string& path) {
  return guarded(impl_->path, [&]() -> base::Status {
    SQLite::Statement statement(*impl_->database, "DELETE FROM models WHERE path = ?");
    SQLite::bind(statement, path);
    statement.exec();
    return {};
  });
}

base::Result<std::vector<ModelRecord>> ModelRegistry::list() const {
  return guarded(impl_->path, [&]() -> base::Result<std::vector<ModelRecord>> {
    std::vector<ModelRecord> records;
    SQLite::Transaction one_view(*impl_->database);  // of both tables
    SQLite::Statement rows(*impl_->database,
                           fmt::format("SELECT {} FROM models ORDER BY name, path", kColumns));
    SQLite::Statement aliases(*impl_->database, "SELECT alias FROM aliases WHERE path = ? ORDER BY alias");
    SQLite::Statement files(*impl_->database, "SELECT file FROM weight_files WHERE path = ? ORDER BY file");
    while (rows.executeStep()) {
      records.push_back(record_of(rows));
      aliases.reset();
      aliases.bind(1, records.back().path);
      while (aliases.executeStep()) records.back().aliases.push_back(aliases.getColumn(0).getString());
      files.reset();
      files.bind(1, records.back().path);
      while (files.executeStep()) records.back().weight_files.push_back(files.getColumn(0).getString());
    }
    return records;
  });
}

base::Result<ModelRecord> ModelRegistry::find(const std::string& query, bool with_missing) const {
  RAFTER_ASSIGN(const std::vector<ModelRecord> records, list());
  if (query.empty()) return not_found(query);
  const std::string path = normalized_path(query), wanted = lowercase(query);
  std::vector<const ModelRecord*> same_name, containing;
  const ModelRecord* by_alias = nullptr;
  for (const ModelRecord& record : records) {
    if (record.missing && !with_missing) continue;
    if (record.path == path || record.path == query) return record;
    bool contains = lowercase(record.name).find(wanted) != std::string::npos;
    for (const std::string& alias : record.aliases) {
      if (alias == query) by_alias = &record;
      contains = contains || lowercase(alias).find(wanted) != std::string::npos;
    }
    if (lowercase(record.name) == wanted) same_name.push_back(&record);
    if (contains) containing.push_back(&record);
  }
  if (by_alias != nullptr) return *by_alias;
  const auto& candidates = same_name.empty() ? containing : same_name;
  if (candidates.empty()) return not_found(query);
  if (candidates.size() > 1) return ambiguous(query, candidates);
  return *candidates.front();
}

base::Result<int> ModelRegistry::reap_missing() {
  RAFTER_ASSIGN(const std::vector<ModelRecord> records, list());
  return guarded(impl_->path, [&]() -> base::Result<int> {
    int forgotten = 0;
    SQLite::Transaction transaction(*impl_->database, SQLite::TransactionBehavior::IMMEDIATE);
    for (const ModelRecord& record : records) {
      std::error_code failed;
      const bool gone = !std::filesystem::exists(record.path, failed);
      const bool missing = gone || !missing_files(record).empty();
      if (gone && record.aliases.empty()) {
        RAFTER_TRY(remove(record.path));
        ++forgotten;
      } else if (missing != record.missing) {
        SQLite::Statement mark(*impl_->database, "UPDATE models SET missing = ? WHERE path = ?");
        SQLite::bind(mark, missing ? 1 : 0, record.path);
        mark.exec();
      }
    }
    transaction.commit();
    return forgotten;
  });
}

}  // namespace rafter::store
