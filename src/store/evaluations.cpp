#include "store/evaluations.h"

#include "store/database.h"
#include "store/paths.h"

namespace rafter::store {
namespace {

constexpr const char* kMigrations[] = {
    // 1: runs, their figures, and machines
    "CREATE TABLE runs ("
    "  id INTEGER PRIMARY KEY, started_at INTEGER NOT NULL, kind TEXT NOT NULL, model TEXT NOT NULL,"
    "  model_path TEXT NOT NULL, version TEXT NOT NULL, commit_sha TEXT NOT NULL, machine TEXT NOT NULL,"
    "  device TEXT NOT NULL, threads INTEGER NOT NULL, format TEXT NOT NULL, kv TEXT NOT NULL,"
    "  raw_read_gbps REAL NOT NULL, peak_tops REAL NOT NULL, load_ms REAL NOT NULL,"
    "  first_token_ms REAL NOT NULL, peak_rss_bytes INTEGER NOT NULL, predicted_bytes INTEGER NOT NULL,"
    "  logits_hash TEXT NOT NULL, busy INTEGER NOT NULL, others_pct REAL NOT NULL,"
    "  load_before REAL NOT NULL, note TEXT NOT NULL) STRICT;"
    "CREATE TABLE figures ("
    "  run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE, place INTEGER NOT NULL,"
    "  metric TEXT NOT NULL, tokens INTEGER NOT NULL, rows INTEGER NOT NULL, seconds REAL NOT NULL,"
    "  tps REAL NOT NULL, gbps REAL NOT NULL, roofline_pct REAL NOT NULL, compute_pct REAL NOT NULL,"
    "  spread_pct REAL NOT NULL, predicted_tps REAL NOT NULL, PRIMARY KEY (run, place)) STRICT;"
    "CREATE TABLE machines ("
    "  machine TEXT NOT NULL, threads INTEGER NOT NULL, measured_at INTEGER NOT NULL,"
    "  raw_read_gbps REAL NOT NULL, peak_tops REAL NOT NULL, busy INTEGER NOT NULL,"
    "  PRIMARY KEY (machine, threads)) STRICT;",
};

constexpr const char* kRunColumns =
    "id, started_at, kind, model, model_path, version, commit_sha, machine, device, threads, format, kv, "
    "raw_read_gbps, peak_tops, load_ms, first_token_ms, peak_rss_bytes, predicted_bytes, logits_hash, busy, "
    "others_pct, load_before, note";

EvaluationRun run_of(SQLite::Statement& row) {
  EvaluationRun run;
  int column = 0;
  const auto text = [&] { return row.getColumn(column++).getString(); };
  const auto integer = [&] { return row.getColumn(column++).getInt64(); };
  const auto real = [&] { return row.getColumn(column++).getDouble(); };
  run.id = integer();
  run.started_at = integer();
  run.kind = text();
  run.model = text();
  run.model_path = text();
  run.version = text();
  run.commit = text();
  run.machine = text();
  run.device = text();
  run.threads = static_cast<int>(integer());
  run.format = text();
  run.kv = text();
  run.raw_read_gbps = real();
  run.peak_tops = real();
  run.load_ms = real();
  run.first_token_ms = real();
  run.peak_rss_bytes = integer();
  run.predicted_bytes = integer();
  run.logits_hash = text();
  run.busy = integer() != 0;
  run.others_pct = real();
  run.load_before = real();
  run.note = text();
  return run;
}

EvaluationFigure figure_of(SQLite::Statement& row) {
  EvaluationFigure figure;
  figure.metric = row.getColumn(0).getString();
  figure.tokens = row.getColumn(1).getInt64();
  figure.rows = row.getColumn(2).getInt();
  figure.seconds = row.getColumn(3).getDouble();
  figure.tps = row.getColumn(4).getDouble();
  figure.gbps = row.getColumn(5).getDouble();
  figure.roofline_pct = row.getColumn(6).getDouble();
  figure.compute_pct = row.getColumn(7).getDouble();
  figure.spread_pct = row.getColumn(8).getDouble();
  figure.predicted_tps = row.getColumn(9).getDouble();
  return figure;
}

void read_figures(SQLite::Database& database, EvaluationRun& run) {
  SQLite::Statement select(database,
                           "SELECT metric, tokens, rows, seconds, tps, gbps, roofline_pct, compute_pct, "
                           "spread_pct, predicted_tps FROM figures WHERE run = ? ORDER BY place");
  select.bind(1, run.id);
  while (select.executeStep()) run.figures.push_back(figure_of(select));
}

// For LIKE with '\' as escape.
std::string like_literal(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '%' || c == '_' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

struct Evaluations::Impl {
  std::string path;
  std::unique_ptr<SQLite::Database> database;
};

Evaluations::Evaluations(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Evaluations::Evaluations(Evaluations&&) noexcept = default;
Evaluations& Evaluations::operator=(Evaluations&&) noexcept = default;
Evaluations::~Evaluations() = default;

base::Result<Evaluations> Evaluations::open(const std::string& path) {
  RAFTER_ASSIGN(auto database, open_database(path, kMigrations));
  return Evaluations(std::make_unique<Impl>(Impl{path, std::move(database)}));
}

base::Result<std::string> Evaluations::default_path() {
  RAFTER_ASSIGN(const std::string folder, cache_directory());
  return folder + "/evals.sqlite";
}

base::Result<Evaluations> Evaluations::open_default() {
  RAFTER_ASSIGN(const std::string path, default_path());
  return open(path);
}

base::Result<int64_t> Evaluations::add(const EvaluationRun& run) {
  return guarded(impl_->path, [&]() -> base::Result<int64_t> {
    SQLite::Database& database = *impl_->database;
    SQLite::Transaction transaction(database, SQLite::TransactionBehavior::IMMEDIATE);
    SQLite::Statement insert(database,
                             fmt::format("INSERT INTO runs ({}) VALUES (NULL, ?, ?, ?, ?, ?, ?, ?, ?, "
                                         "?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                                         kRunColumns));
    SQLite::bind(insert, run.started_at, run.kind, run.model, run.model_path, run.version, run.commit,
                 run.machine, run.device, run.threads, run.format, run.kv, run.raw_read_gbps, run.peak_tops,
                 run.load_ms, run.first_token_ms, run.peak_rss_bytes, run.predicted_bytes, run.logits_hash,
                 run.busy ? 1 : 0, run.others_pct, run.load_before, run.note);
    insert.exec();
    const int64_t id = database.getLastInsertRowid();
    for (size_t i = 0; i < run.figures.size(); ++i) {
      const EvaluationFigure& f = run.figures[i];
      SQLite::Statement figure(database, "INSERT INTO figures VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
      SQLite::bind(figure, id, static_cast<int64_t>(i), f.metric, f.tokens, f.rows, f.seconds, f.tps, f.gbps,
                   f.roofline_pct, f.compute_pct, f.spread_pct, f.predicted_tps);
      figure.exec();
    }
    transaction.commit();
    return id;
  });
}

base::Result<std::vector<EvaluationRun>> Evaluations::list(const EvaluationFilter& filter) const {
  return guarded(impl_->path, [&]() -> base::Result<std::vector<EvaluationRun>> {
    SQLite::Statement select(
        *impl_->database,
        fmt::format(
            "SELECT {} FROM runs WHERE model LIKE ? ESCAPE '\\' AND commit_sha LIKE ? ESCAPE '\\' AND "
            "(? = '' OR machine = ?) AND (? = '' OR kind = ?) ORDER BY started_at DESC, id DESC LIMIT ?",
            kRunColumns));
    SQLite::bind(select, "%" + like_literal(filter.model) + "%", like_literal(filter.commit) + "%",
                 filter.machine, filter.machine, filter.kind, filter.kind,
                 filter.limit > 0 ? filter.limit : int64_t{-1});
    std::vector<EvaluationRun> runs;
    while (select.executeStep()) runs.push_back(run_of(select));
    for (EvaluationRun& run : runs) read_figures(*impl_->database, run);
    return runs;
  });
}

base::Result<EvaluationRun> Evaluations::get(int64_t id) const {
  return guarded(impl_->path, [&]() -> base::Result<EvaluationRun> {
    SQLite::Statement select(*impl_->database, fmt::format("SELECT {} FROM runs WHERE id = ?", kRunColumns));
    select.bind(1, id);
    if (!select.executeStep()) {
      return base::Error{base::ErrorCode::not_found, fmt::format("there is no run {}", id), "evals",
                         "`rafter evals` lists them"};
    }
    EvaluationRun run = run_of(select);
    read_figures(*impl_->database, run);
    return run;
  });
}

base::Status Evaluations::put_profile(const MachineProfile& profile) {
  return guarded(impl_->path, [&]() -> base::Status {
    SQLite::Statement insert(*impl_->database, "INSERT OR REPLACE INTO machines VALUES (?, ?, ?, ?, ?, ?)");
    SQLite::bind(insert, profile.machine, profile.threads, profile.measured_at, profile.raw_read_gbps,
                 profile.peak_tops, profile.busy ? 1 : 0);
    insert.exec();
    return {};
  });
}

base::Result<std::optional<MachineProfile>> Evaluations::profile_of(const std::string& machine,
                                                                    int threads) const {
  return guarded(impl_->path, [&]() -> base::Result<std::optional<MachineProfile>> {
    SQLite::Statement select(*impl_->database,
                             "SELECT measured_at, raw_read_gbps, peak_tops, busy FROM machines WHERE "
                             "machine = ? AND threads = ?");
    SQLite::bind(select, machine, threads);
    if (!select.executeStep()) return std::optional<MachineProfile>();
    return std::optional(MachineProfile{machine, threads, select.getColumn(0).getInt64(),
                                        select.getColumn(1).getDouble(), select.getColumn(2).getDouble(),
                                        select.getColumn(3).getInt() != 0});
  });
}

}  // namespace rafter::store
