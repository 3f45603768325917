// DB, Snapshot, Iterator, Options and Status over the C functions.
//
// Each object has one handle of C, and forwards. Options of reads and writes are made once, except
// options with a snapshot. Errors come as texts, and their prefixes make a Status again. Nothing
// here throws, except for lack of memory.

#include <cassert>
#include <cstring>
#include <memory>

#include "internals.h"
#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/evendb.h"
#include "leveldb/filter_policy.h"

namespace leveldb {

namespace {

// Makes a Status from the error that a C function has left, and frees the error.
class Outcome {
 public:
  Outcome() = default;
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  ~Outcome() { leveldb_free(error_); }

  char** place() { return &error_; }

  Status status() const {
    if (error_ == nullptr) return Status::OK();
    const Slice text(error_);
    const struct {
      const char* prefix;
      Status (*make)(const Slice&, const Slice&);
    } kinds[] = {
        {"NotFound: ", &Status::NotFound},
        {"Corruption: ", &Status::Corruption},
        {"Not implemented: ", &Status::NotSupported},
        {"Invalid argument: ", &Status::InvalidArgument},
        {"IO error: ", &Status::IOError},
    };
    for (const auto& kind : kinds) {
      const Slice prefix(kind.prefix);
      if (text.starts_with(prefix)) {
        return kind.make(Slice(text.data() + prefix.size(), text.size() - prefix.size()), Slice());
      }
    }
    return Status::IOError(text);
  }

 private:
  char* error_ = nullptr;
};

// Frees a handle of C.
template <typename T, void (*destroy)(T*)>
struct Destroy {
  void operator()(T* handle) const { destroy(handle); }
};
template <typename T, void (*destroy)(T*)>
using Owned = std::unique_ptr<T, Destroy<T, destroy>>;

using OwnedOptions = Owned<leveldb_options_t, leveldb_options_destroy>;
using OwnedReadOptions = Owned<leveldb_readoptions_t, leveldb_readoptions_destroy>;
using OwnedComparator = Owned<leveldb_comparator_t, leveldb_comparator_destroy>;
using OwnedCache = Owned<leveldb_cache_t, leveldb_cache_destroy>;
using OwnedFilterPolicy = Owned<leveldb_filterpolicy_t, leveldb_filterpolicy_destroy>;
using OwnedBatch = Owned<leveldb_writebatch_t, leveldb_writebatch_destroy>;
using OwnedText = Owned<void, leveldb_free>;

void SetComparator(leveldb_options_t* options, const Comparator* comparator) {
  const auto nothing = [](void*) {};
  const auto compare = [](void* state, const char* a, size_t a_size, const char* b, size_t b_size) {
    return static_cast<const Comparator*>(state)->Compare(Slice(a, a_size), Slice(b, b_size));
  };
  const auto name = [](void* state) { return static_cast<const Comparator*>(state)->Name(); };
  const OwnedComparator made(
      leveldb_comparator_create(const_cast<Comparator*>(comparator), nothing, compare, name));
  leveldb_options_set_comparator(options, made.get());
}

OwnedOptions ToC(const Options& options, const char* layout = nullptr) {
  OwnedOptions made(leveldb_options_create());
  leveldb_options_t* c = made.get();
  if (options.comparator != nullptr) SetComparator(c, options.comparator);
  leveldb_options_set_create_if_missing(c, options.create_if_missing);
  leveldb_options_set_error_if_exists(c, options.error_if_exists);
  leveldb_options_set_paranoid_checks(c, options.paranoid_checks);
  leveldb_options_set_write_buffer_size(c, options.write_buffer_size);
  leveldb_options_set_max_open_files(c, options.max_open_files);
  leveldb_options_set_block_size(c, options.block_size);
  leveldb_options_set_block_restart_interval(c, options.block_restart_interval);
  leveldb_options_set_max_file_size(c, options.max_file_size);
  leveldb_options_set_compression(c, options.compression);
  evendb_leveldb_options_set_layout(c, layout);
  uintptr_t number;
  if (Made::Find(options.block_cache, &number)) {
    const OwnedCache cache(leveldb_cache_create_lru(number));
    leveldb_options_set_cache(c, cache.get());
  }
  if (Made::Find(options.filter_policy, &number)) {
    const OwnedFilterPolicy policy(leveldb_filterpolicy_create_bloom(static_cast<int>(number)));
    leveldb_options_set_filter_policy(c, policy.get());
  }
  if (Made::Find(options.env, &number)) {
    evendb_leveldb_options_set_memory(c, reinterpret_cast<const evendb_leveldb_memory_t*>(number));
  }
  return made;
}

Status CheckEnv(const Options& options) {
  uintptr_t disk;
  if (options.env == nullptr || options.env == Env::Default() || Made::Find(options.env, &disk)) return Status::OK();
  return Status::NotSupported(
      "an environment of the program's own: databases reach their files themselves; use Env::Default() or "
      "NewMemEnv()");
}

class MomentOfDb final : public Snapshot {
 public:
  explicit MomentOfDb(const leveldb_snapshot_t* handle) : handle_(handle) {}
  ~MomentOfDb() override = default;

  const leveldb_snapshot_t* handle() const { return handle_; }

 private:
  const leveldb_snapshot_t* handle_;
};

// Options of C for the duration of a call. Of LevelDB's options only the snapshot has an effect.
class ReadOptionsOfC {
 public:
  explicit ReadOptionsOfC(const ReadOptions& options) {
    if (options.snapshot == nullptr) return;
    with_snapshot_.reset(leveldb_readoptions_create());
    const auto* moment = static_cast<const MomentOfDb*>(options.snapshot);
    leveldb_readoptions_set_snapshot(with_snapshot_.get(), moment->handle());
  }

  const leveldb_readoptions_t* get() const {
    static const leveldb_readoptions_t* const newest = leveldb_readoptions_create();
    return with_snapshot_ == nullptr ? newest : with_snapshot_.get();
  }

 private:
  OwnedReadOptions with_snapshot_;
};

const leveldb_writeoptions_t* WriteOptionsOfC(bool sync) {
  leveldb_writeoptions_t* made = leveldb_writeoptions_create();
  leveldb_writeoptions_set_sync(made, sync);
  return made;
}

const leveldb_writeoptions_t* ToC(const WriteOptions& options) {
  // Never destroyed: threads may write to the end of the program.
  static const leveldb_writeoptions_t* const made[] = {WriteOptionsOfC(false), WriteOptionsOfC(true)};
  return made[options.sync ? 1 : 0];
}

// Gets the writes of a batch, and gives them as a batch of C.
class BatchForC final : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override {
    leveldb_writebatch_put(batch_.get(), key.data(), key.size(), value.data(), value.size());
  }
  void Delete(const Slice& key) override { leveldb_writebatch_delete(batch_.get(), key.data(), key.size()); }

  leveldb_writebatch_t* get() { return batch_.get(); }

 private:
  const OwnedBatch batch_{leveldb_writebatch_create()};
};

class IteratorOfDb final : public Iterator {
 public:
  explicit IteratorOfDb(leveldb_iterator_t* handle) : handle_(handle) {}
  ~IteratorOfDb() override { leveldb_iter_destroy(handle_); }

  bool Valid() const override { return leveldb_iter_valid(handle_) != 0; }
  void SeekToFirst() override { leveldb_iter_seek_to_first(handle_); }
  void SeekToLast() override { leveldb_iter_seek_to_last(handle_); }
  void Seek(const Slice& target) override { leveldb_iter_seek(handle_, target.data(), target.size()); }
  void Next() override { leveldb_iter_next(handle_); }
  void Prev() override { leveldb_iter_prev(handle_); }
  Slice key() const override { return Lent(leveldb_iter_key); }
  Slice value() const override { return Lent(leveldb_iter_value); }

  Status status() const override {
    Outcome outcome;
    leveldb_iter_get_error(handle_, outcome.place());
    return outcome.status();
  }

 private:
  Slice Lent(const char* (*part)(const leveldb_iterator_t*, size_t*)) const {
    size_t size = 0;
    const char* data = part(handle_, &size);
    return data == nullptr ? Slice() : Slice(data, size);
  }

  leveldb_iterator_t* const handle_;
};

class IteratorOfNothing final : public Iterator {
 public:
  explicit IteratorOfNothing(const Status& status) : status_(status) {}

  bool Valid() const override { return false; }
  void SeekToFirst() override {}
  void SeekToLast() override {}
  void Seek(const Slice&) override {}
  void Next() override {}
  void Prev() override {}
  Slice key() const override { return Slice(); }
  Slice value() const override { return Slice(); }
  Status status() const override { return status_; }

 private:
  const Status status_;
};

class DbOfC final : public DB {
 public:
  explicit DbOfC(leveldb_t* handle) : handle_(handle) {}
  ~DbOfC() override { leveldb_close(handle_); }

  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    Outcome outcome;
    leveldb_put(handle_, ToC(options), key.data(), key.size(), value.data(), value.size(), outcome.place());
    return outcome.status();
  }

  Status Delete(const WriteOptions& options, const Slice& key) override {
    Outcome outcome;
    leveldb_delete(handle_, ToC(options), key.data(), key.size(), outcome.place());
    return outcome.status();
  }

  Status Write(const WriteOptions& options, WriteBatch* updates) override {
    BatchForC batch;
    if (updates != nullptr) {
      const Status read = updates->Iterate(&batch);
      if (!read.ok()) return read;
    }
    Outcome outcome;
    leveldb_write(handle_, ToC(options), batch.get(), outcome.place());
    return outcome.status();
  }

  Status Get(const ReadOptions& options, const Slice& key, std::string* value) override {
    const auto assign = [](void* state, const char* data, size_t size) {
      static_cast<std::string*>(state)->assign(data, size);
    };
    Outcome outcome;
    const uint8_t found = evendb_leveldb_get(handle_, ReadOptionsOfC(options).get(), key.data(), key.size(), value,
                                     assign, outcome.place());
    const Status status = outcome.status();
    if (status.ok() && !found) return Status::NotFound(Slice());
    return status;
  }

  Iterator* NewIterator(const ReadOptions& options) override {
    return new IteratorOfDb(leveldb_create_iterator(handle_, ReadOptionsOfC(options).get()));
  }

  const Snapshot* GetSnapshot() override { return new MomentOfDb(leveldb_create_snapshot(handle_)); }

  void ReleaseSnapshot(const Snapshot* snapshot) override {
    const std::unique_ptr<const MomentOfDb> moment(static_cast<const MomentOfDb*>(snapshot));
    leveldb_release_snapshot(handle_, moment->handle());
  }

  bool GetProperty(const Slice& property, std::string* value) override {
    value->clear();
    char* found = leveldb_property_value(handle_, property.ToString().c_str());
    const OwnedText owned(found);
    if (found == nullptr) return false;
    value->assign(found);
    return true;
  }

  void GetApproximateSizes(const Range* range, int n, uint64_t* sizes) override {
    for (int i = 0; i < n; i++) {
      const char* start = range[i].start.data();
      const char* limit = range[i].limit.data();
      const size_t start_size = range[i].start.size();
      const size_t limit_size = range[i].limit.size();
      leveldb_approximate_sizes(handle_, 1, &start, &start_size, &limit, &limit_size, &sizes[i]);
    }
  }

  void CompactRange(const Slice* begin, const Slice* end) override {
    leveldb_compact_range(handle_, begin ? begin->data() : nullptr, begin ? begin->size() : 0,
                          end ? end->data() : nullptr, end ? end->size() : 0);
  }

 private:
  leveldb_t* const handle_;
};

}  // namespace

// ---- Status ----

namespace {

// As the header says: the length of the message, the code, the message.
char* NewState(uint32_t length, size_t message_at) {
  char* state = new char[message_at + length];
  std::memcpy(state, &length, sizeof(length));
  return state;
}

uint32_t LengthOf(const char* state) {
  uint32_t length;
  std::memcpy(&length, state, sizeof(length));
  return length;
}

}  // namespace

Status::Status(Code code, const Slice& msg, const Slice& msg2) {
  assert(code != kOk);
  std::string message = msg.ToString();
  if (!msg2.empty()) message.append(": ").append(msg2.data(), msg2.size());
  char* state = NewState(static_cast<uint32_t>(message.size()), kMessageAt);
  state[kCodeAt] = static_cast<char>(code);
  std::memcpy(state + kMessageAt, message.data(), message.size());
  state_ = state;
}

const char* Status::CopyState(const char* state) {
  char* copy = NewState(LengthOf(state), kMessageAt);
  std::memcpy(copy, state, kMessageAt + LengthOf(state));
  return copy;
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  const std::string message(state_ + kMessageAt, LengthOf(state_));
  switch (code()) {
    case kNotFound:
      return "NotFound: " + message;
    case kCorruption:
      return "Corruption: " + message;
    case kNotSupported:
      return "Not implemented: " + message;
    case kInvalidArgument:
      return "Invalid argument: " + message;
    case kOk:
    case kIOError:
      break;
  }
  return "IO error: " + message;
}

// ---- Options ----

Options::Options() : comparator(BytewiseComparator()), env(Env::Default()) {}

// ---- Iterator ----

Iterator::Iterator() : cleanups_{nullptr, nullptr, nullptr, nullptr} {}

Iterator::~Iterator() {
  if (cleanups_.function == nullptr) return;
  cleanups_.function(cleanups_.arg1, cleanups_.arg2);
  for (const Cleanup* next = cleanups_.next; next != nullptr;) {
    const std::unique_ptr<const Cleanup> cleanup(next);
    cleanup->function(cleanup->arg1, cleanup->arg2);
    next = cleanup->next;
  }
}

void Iterator::RegisterCleanup(CleanupFunction function, void* arg1, void* arg2) {
  assert(function != nullptr);
  const Cleanup made{function, arg1, arg2, nullptr};
  if (cleanups_.function == nullptr) {
    cleanups_ = made;
    return;
  }
  Cleanup* last = &cleanups_;
  while (last->next != nullptr) last = last->next;
  last->next = new Cleanup(made);
}

Iterator* NewEmptyIterator() { return new IteratorOfNothing(Status::OK()); }
Iterator* NewErrorIterator(const Status& status) { return new IteratorOfNothing(status); }

// ---- DB ----

Snapshot::~Snapshot() = default;
DB::~DB() = default;

// For a program's own database: these two as batches.
Status DB::Put(const WriteOptions& options, const Slice& key, const Slice& value) {
  WriteBatch batch;
  batch.Put(key, value);
  return Write(options, &batch);
}

Status DB::Delete(const WriteOptions& options, const Slice& key) {
  WriteBatch batch;
  batch.Delete(key);
  return Write(options, &batch);
}

Status DB::Open(const Options& options, const std::string& name, DB** dbptr) {
  return OpenWithLayout(options, name, nullptr, dbptr);
}

Status OpenWithLayout(const Options& options, const std::string& name, const char* layout, DB** dbptr) {
  *dbptr = nullptr;
  const Status env = CheckEnv(options);
  if (!env.ok()) return env;
  Outcome outcome;
  leveldb_t* handle = leveldb_open(ToC(options, layout).get(), name.c_str(), outcome.place());
  if (handle != nullptr) *dbptr = new DbOfC(handle);
  return outcome.status();
}

Status DestroyDB(const std::string& name, const Options& options) {
  const Status env = CheckEnv(options);
  if (!env.ok()) return env;
  Outcome outcome;
  leveldb_destroy_db(ToC(options).get(), name.c_str(), outcome.place());
  return outcome.status();
}

Status RepairDB(const std::string& dbname, const Options& options) {
  const Status env = CheckEnv(options);
  if (!env.ok()) return env;
  Outcome outcome;
  leveldb_repair_db(ToC(options).get(), dbname.c_str(), outcome.place());
  return outcome.status();
}

}  // namespace leveldb
