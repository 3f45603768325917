// A C++ program as it is written for LevelDB: tests/programs.rs compiles it with our headers and
// sources, and links it to our library. scripts/check-leveldb-programs compiles it with LevelDB's own
// headers, links it to LevelDB's library, and runs it with ours. Its argument is a directory that
// does not exist. If something is wrong, it says so and ends with 1.

// Programs declare classes before they include the headers, and the names are the same.
namespace leveldb {
class DB;
class Iterator;
class WriteBatch;
struct Options;
}  // namespace leveldb

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <new>
#include <stdexcept>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/dumpfile.h"
#include "leveldb/filter_policy.h"
#include "leveldb/helpers/memenv.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

#define EXPECT(condition)                                                                \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " << #condition << std::endl; \
      std::exit(1);                                                                      \
    }                                                                                    \
  } while (0)

static void slices() {
  const std::string bytes("a\0b", 3);
  Slice slice(bytes);
  EXPECT(slice.size() == 3 && slice[1] == '\0' && slice.ToString() == bytes);
  EXPECT(slice.starts_with("a") && !slice.starts_with("b") && slice.starts_with(Slice()));
  slice.remove_prefix(2);
  EXPECT(slice == Slice("b") && slice != Slice("c"));
  slice.clear();
  EXPECT(slice.empty());
  EXPECT(Slice("a").compare("b") < 0 && Slice("ab").compare("a") > 0 && Slice("\xff").compare("a") > 0);
}

static void statuses() {
  Status status = Status::IOError("file", "gone");
  EXPECT(status.IsIOError() && !status.ok() && status.ToString() == "IO error: file: gone");
  Status moved = std::move(status);
  EXPECT(moved.IsIOError());
  Status copied;
  copied = moved;
  EXPECT(copied.ToString() == moved.ToString() && Status::OK().ToString() == "OK");
  EXPECT(Status::NotFound("k").IsNotFound() && Status::NotFound("k").ToString() == "NotFound: k");
  EXPECT(Status::Corruption("c").IsCorruption() && Status::InvalidArgument("i").IsInvalidArgument());
  EXPECT(Status::NotSupported("n").IsNotSupportedError());
}

// Shows the writes of a batch.
class Teller : public WriteBatch::Handler {
 public:
  void Put(const Slice& key, const Slice& value) override { told += key.ToString() + "=" + value.ToString() + ";"; }
  void Delete(const Slice& key) override { told += "-" + key.ToString() + ";"; }
  std::string told;
};

class Thrower : public Teller {
 public:
  void Delete(const Slice&) override { throw std::runtime_error("thrown"); }
};

static std::string told_of(const WriteBatch& batch) {
  Teller teller;
  EXPECT(batch.Iterate(&teller).ok());
  return teller.told;
}

static void batches() {
  WriteBatch batch;
  const size_t empty = batch.ApproximateSize();
  batch.Put("a", "1");
  batch.Delete("b");
  EXPECT(batch.ApproximateSize() == empty + 5 + 3);
  WriteBatch copy(batch);
  batch.Append(copy);
  EXPECT(told_of(batch) == "a=1;-b;a=1;-b;" && told_of(copy) == "a=1;-b;");
  copy = batch;
  batch.Append(batch);
  EXPECT(batch.ApproximateSize() == empty + 4 * 8);
  batch.Clear();
  EXPECT(batch.ApproximateSize() == empty && told_of(batch).empty() && told_of(copy) == "a=1;-b;a=1;-b;");
  Thrower thrower;
  bool caught = false;
  try {
    copy.Iterate(&thrower);
  } catch (const std::runtime_error&) {
    caught = true;
  }
  EXPECT(caught && thrower.told == "a=1;");
}

static void comparators() {
  const Comparator* order = BytewiseComparator();
  EXPECT(order->Name() == std::string("leveldb.BytewiseComparator"));
  const std::vector<std::string> keys = {"", "a", "a\xff", "ab", "abc", "abd", "b", "\xff", "\xff\xff", "\xff\xff" "a"};
  for (const std::string& low : keys) {
    std::string after = low;
    order->FindShortSuccessor(&after);
    EXPECT(order->Compare(after, low) >= 0 && after.size() <= low.size());
    for (const std::string& high : keys) {
      if (order->Compare(low, high) >= 0) continue;
      std::string between = low;
      order->FindShortestSeparator(&between, high);
      EXPECT(order->Compare(between, low) >= 0 && order->Compare(between, high) < 0);
      EXPECT(between.size() <= low.size());
    }
  }
}

static void filters() {
  const std::unique_ptr<const FilterPolicy> policy(NewBloomFilterPolicy(10));
  std::vector<std::string> keys;
  for (int n = 0; n < 1000; n++) keys.push_back("key" + std::to_string(n));
  const std::vector<Slice> slices(keys.begin(), keys.end());
  std::string filter = "before";
  policy->CreateFilter(slices.data(), 1000, &filter);
  const Slice made(filter.data() + 6, filter.size() - 6);
  for (const Slice& key : slices) EXPECT(policy->KeyMayMatch(key, made));
  int mistakes = 0;
  for (int n = 0; n < 1000; n++) mistakes += policy->KeyMayMatch("absent" + std::to_string(n), made);
  EXPECT(mistakes < 50);
}

static std::string gone;
static void note_gone(const Slice& key, void*) { gone += key.ToString(); }

static void caches() {
  const std::unique_ptr<Cache> cache(NewLRUCache(2));
  int value = 0;
  for (const char* key : {"a", "b"}) cache->Release(cache->Insert(key, &value, 1, note_gone));
  Cache::Handle* used = cache->Lookup("a");
  EXPECT(used != nullptr && cache->Value(used) == &value && cache->TotalCharge() == 2);
  // The entry that nobody uses makes room for the third.
  cache->Release(cache->Insert("c", &value, 1, note_gone));
  EXPECT(gone == "b" && cache->Lookup("b") == nullptr);
  cache->Erase("a");
  EXPECT(gone == "b" && cache->Lookup("a") == nullptr);
  cache->Release(used);
  EXPECT(gone == "ba");
  cache->Prune();
  EXPECT(gone == "bac" && cache->TotalCharge() == 0 && cache->NewId() != cache->NewId());
}

static std::atomic<int> ran(0);
static void run(void* n) { ran += *static_cast<int*>(n); }

static void log_line(Logger* logger, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  logger->Logv(format, arguments);
  va_end(arguments);
}

static void environment(const std::string& dir) {
  Env* env = Env::Default();
  EXPECT(env->CreateDir(dir).ok() && env->FileExists(dir));
  const std::string name = dir + "/file";
  EXPECT(WriteStringToFile(env, "first ", name).ok());
  WritableFile* appended;
  EXPECT(env->NewAppendableFile(name, &appended).ok());
  EXPECT(appended->Append("second").ok() && appended->Sync().ok() && appended->Close().ok());
  delete appended;
  std::string all;
  EXPECT(ReadFileToString(env, name, &all).ok() && all == "first second");
  RandomAccessFile* file;
  EXPECT(env->NewRandomAccessFile(name, &file).ok());
  char scratch[16];
  Slice part;
  EXPECT(file->Read(6, 100, &part, scratch).IsIOError() == false && part == Slice("second"));
  delete file;
  SequentialFile* sequential;
  EXPECT(env->NewSequentialFile(name, &sequential).ok() && sequential->Skip(6).ok());
  EXPECT(sequential->Read(3, &part, scratch).ok() && part == Slice("sec"));
  delete sequential;
  uint64_t size;
  EXPECT(env->GetFileSize(name, &size).ok() && size == 12);
  EXPECT(env->RenameFile(name, name + "2").ok() && !env->FileExists(name));
  EXPECT(env->NewSequentialFile(name, &sequential).IsNotFound());
  std::vector<std::string> names;
  EXPECT(env->GetChildren(dir, &names).ok() && names.size() == 3);
  FileLock* lock;
  FileLock* second;
  EXPECT(env->LockFile(dir + "/lock", &lock).ok() && env->LockFile(dir + "/lock", &second).IsIOError());
  EXPECT(env->UnlockFile(lock).ok());
  EXPECT(env->LockFile(dir + "/lock", &lock).ok() && env->UnlockFile(lock).ok());
  Logger* logger;
  EXPECT(env->NewLogger(dir + "/log", &logger).ok());
  log_line(logger, "a line %d", 7);
  delete logger;
  EXPECT(ReadFileToString(env, dir + "/log", &all).ok() && all.find(" a line 7\n") != std::string::npos);
  for (const char* each : {"/file2", "/lock", "/log"}) EXPECT(env->DeleteFile(dir + each).ok());
  EXPECT(env->DeleteDir(dir).ok());

  int one = 1;
  int ten = 10;
  env->Schedule(run, &one);
  env->StartThread(run, &ten);
  while (ran != 11) env->SleepForMicroseconds(100);
  EXPECT(env->NowMicros() > 0);
  std::string tests;
  EXPECT(env->GetTestDirectory(&tests).ok() && !tests.empty());
}

// The order of bytes backwards.
class Backwards : public Comparator {
 public:
  int Compare(const Slice& a, const Slice& b) const override { return b.compare(a); }
  const char* Name() const override { return "Backwards"; }
  void FindShortestSeparator(std::string*, const Slice&) const override {}
  void FindShortSuccessor(std::string*) const override {}
};

static int cleanups = 0;
static void note_cleanup(void* more, void*) { cleanups += *static_cast<int*>(more); }

static void database(const std::string& path) {
  Options options;
  DB* opened;
  Status status = DB::Open(options, path, &opened);
  EXPECT(opened == nullptr && status.IsInvalidArgument());
  options.create_if_missing = true;
  Backwards backwards;
  options.comparator = &backwards;
  status = DB::Open(options, path, &opened);
  EXPECT(opened == nullptr && status.IsNotSupportedError());
  EXPECT(status.ToString().find("comparator Backwards") != std::string::npos);
  options.comparator = BytewiseComparator();
  EnvWrapper own(Env::Default());
  options.env = &own;
  EXPECT(DB::Open(options, path, &opened).IsNotSupportedError());
  EXPECT(DestroyDB(path, options).IsNotSupportedError() && RepairDB(path, options).IsNotSupportedError());
  options.env = Env::Default();

  const std::unique_ptr<Cache> cache(NewLRUCache(32 << 20));
  const std::unique_ptr<const FilterPolicy> filter(NewBloomFilterPolicy(10));
  options.block_cache = cache.get();
  options.filter_policy = filter.get();
  EXPECT(DB::Open(options, path, &opened).ok());
  std::unique_ptr<DB> db(opened);
  WriteOptions synced;
  synced.sync = true;
  EXPECT(db->Put(WriteOptions(), "a", "1").ok() && db->Put(synced, "b", Slice("\0", 1)).ok());
  std::string value = "before";
  EXPECT(db->Get(ReadOptions(), "c", &value).IsNotFound() && value == "before");
  EXPECT(db->Get(ReadOptions(), "b", &value).ok() && value == std::string(1, '\0'));
  EXPECT(db->Put(WriteOptions(), std::string(1 << 16, 'k'), "").IsInvalidArgument());

  ReadOptions then;
  then.snapshot = db->GetSnapshot();
  WriteBatch batch;
  batch.Put("c", "3");
  batch.Delete("a");
  EXPECT(db->Write(synced, &batch).ok() && db->Write(synced, nullptr).ok());
  EXPECT(db->Get(then, "a", &value).ok() && value == "1" && db->Get(then, "c", &value).IsNotFound());
  std::unique_ptr<Iterator> iterator(db->NewIterator(then));
  db->ReleaseSnapshot(then.snapshot);
  std::string keys;
  for (iterator->SeekToLast(); iterator->Valid(); iterator->Prev()) keys += iterator->key().ToString();
  EXPECT(keys == "ba" && iterator->status().ok());
  iterator->Seek("aa");
  EXPECT(iterator->Valid() && iterator->key() == Slice("b"));
  iterator->Next();
  EXPECT(!iterator->Valid());
  int one = 1;
  int ten = 10;
  iterator->RegisterCleanup(note_cleanup, &one, nullptr);
  iterator->RegisterCleanup(note_cleanup, &ten, nullptr);
  iterator.reset();
  EXPECT(cleanups == 11);
  const std::unique_ptr<Iterator> nothing(NewErrorIterator(Status::Corruption("x")));
  const std::unique_ptr<Iterator> empty(NewEmptyIterator());
  nothing->SeekToFirst();
  EXPECT(!nothing->Valid() && nothing->status().IsCorruption() && empty->status().ok());

  EXPECT(db->GetProperty("leveldb.stats", &value) && !value.empty());
  EXPECT(!db->GetProperty("leveldb.nothing", &value) && value.empty());
  const Range ranges[] = {Range("a", "z"), Range("x", "z")};
  uint64_t sizes[2];
  db->GetApproximateSizes(ranges, 2, sizes);
  EXPECT(sizes[0] > 0 && sizes[1] == 0);
  const Slice begin("a");
  db->CompactRange(&begin, nullptr);
  db->CompactRange(nullptr, nullptr);
  db.reset();
  EXPECT(RepairDB(path, options).ok());
  options.error_if_exists = true;
  EXPECT(DB::Open(options, path, &opened).IsInvalidArgument());
  EXPECT(DestroyDB(path, options).ok() && !Env::Default()->FileExists(path));
}

// A program's own database gets Put() and Delete() from the library: they call Write().
class Collector : public DB {
 public:
  Status Put(const WriteOptions& options, const Slice& key, const Slice& value) override {
    return DB::Put(options, key, value);
  }
  Status Delete(const WriteOptions& options, const Slice& key) override { return DB::Delete(options, key); }
  Status Write(const WriteOptions&, WriteBatch* updates) override {
    told += told_of(*updates);
    return Status::OK();
  }
  Status Get(const ReadOptions&, const Slice& key, std::string*) override { return Status::NotFound(key); }
  Iterator* NewIterator(const ReadOptions&) override { return NewEmptyIterator(); }
  const Snapshot* GetSnapshot() override { return nullptr; }
  void ReleaseSnapshot(const Snapshot*) override {}
  bool GetProperty(const Slice&, std::string*) override { return false; }
  void GetApproximateSizes(const Range*, int, uint64_t*) override {}
  void CompactRange(const Slice*, const Slice*) override {}
  std::string told;
};

// Classes of the program's own have garbage where LevelDB's have members, and nobody looks there.
class OwnCache : public Cache {
 public:
  Handle* Insert(const Slice&, void*, size_t, void (*)(const Slice& key, void* value)) override { return nullptr; }
  Handle* Lookup(const Slice&) override { return nullptr; }
  void Release(Handle*) override {}
  void* Value(Handle*) override { return nullptr; }
  void Erase(const Slice&) override {}
  uint64_t NewId() override { return 1; }
  size_t TotalCharge() const override { return 0; }
};

class OwnFilter : public FilterPolicy {
 public:
  const char* Name() const override { return "OwnFilter"; }
  void CreateFilter(const Slice*, int, std::string*) const override {}
  bool KeyMayMatch(const Slice&, const Slice&) const override { return false; }
};

static void own_classes(const std::string& path) {
  Collector collector;
  EXPECT(collector.Put(WriteOptions(), "a", "1").ok() && collector.Delete(WriteOptions(), "b").ok());
  EXPECT(collector.told == "a=1;-b;");

  alignas(OwnCache) char room[sizeof(OwnCache)];
  std::fill(room, room + sizeof(room), '\x7f');
  OwnCache* cache = new (room) OwnCache;
  const OwnFilter filter;
  Options options;
  options.create_if_missing = true;
  options.block_cache = cache;
  options.filter_policy = &filter;
  DB* opened;
  EXPECT(DB::Open(options, path, &opened).ok());
  std::string value;
  EXPECT(opened->Put(WriteOptions(), "k", "v").ok() && opened->Get(ReadOptions(), "k", &value).ok() && value == "v");
  delete opened;
  cache->~OwnCache();
  EXPECT(DestroyDB(path, Options()).ok());
}

static void memory(const std::string& path) {
  const std::unique_ptr<Env> env(NewMemEnv(Env::Default()));
  Options options;
  options.env = env.get();
  DB* opened;
  EXPECT(DB::Open(options, path, &opened).IsInvalidArgument());
  options.create_if_missing = true;
  EXPECT(DB::Open(options, path, &opened).ok());
  EXPECT(!Env::Default()->FileExists(path));
  EXPECT(opened->Put(WriteOptions(), "k", "v").ok());
  DB* second;
  EXPECT(DB::Open(options, path, &second).IsIOError() && DestroyDB(path, options).IsIOError());
  std::string value;
  EXPECT(opened->GetProperty("leveldb.sstables", &value));
  delete opened;
  EXPECT(RepairDB(path, options).ok() && DB::Open(options, path, &opened).ok());
  EXPECT(opened->Get(ReadOptions(), "k", &value).ok() && value == "v");
  delete opened;
  EXPECT(DestroyDB(path, options).ok() && DestroyDB(path, options).ok());
  options.create_if_missing = false;
  EXPECT(DB::Open(options, path, &opened).IsInvalidArgument());

  // Files of the program's own.
  EXPECT(WriteStringToFile(env.get(), "first ", "/dir/file").ok() && env->FileExists("/dir/file"));
  WritableFile* appended;
  EXPECT(env->NewAppendableFile("/dir/file", &appended).ok() && appended->Append("second").ok());
  delete appended;
  std::string all;
  EXPECT(ReadFileToString(env.get(), "/dir/file", &all).ok() && all == "first second");
  RandomAccessFile* file;
  EXPECT(env->NewRandomAccessFile("/dir/file", &file).ok());
  EXPECT(env->RenameFile("/dir/file", "/dir/other").ok() && !env->FileExists("/dir/file"));
  std::vector<std::string> names;
  EXPECT(env->GetChildren("/dir", &names).ok() && names == std::vector<std::string>{"other"});
  EXPECT(env->RemoveFile("/dir/other").ok() && env->RemoveFile("/dir/other").IsNotFound());
  char scratch[16];
  Slice part;
  EXPECT(file->Read(6, 100, &part, scratch).ok() && part == Slice("second"));
  delete file;
  uint64_t size;
  EXPECT(env->GetFileSize("/dir/other", &size).IsNotFound());
}

// An iterator and a snapshot that are still there when the database is closed. LevelDB leaves this
// undefined.
static void left_behind(const std::string& path) {
  Options options;
  options.create_if_missing = true;
  DB* opened;
  EXPECT(DB::Open(options, path, &opened).ok());
  EXPECT(opened->Put(WriteOptions(), "a", "1").ok() && opened->Put(WriteOptions(), "b", "2").ok());
  const std::unique_ptr<Iterator> iterator(opened->NewIterator(ReadOptions()));
  iterator->SeekToFirst();
  EXPECT(iterator->Valid() && iterator->key() == Slice("a"));
  opened->ReleaseSnapshot(opened->GetSnapshot());
  delete opened;
  // The record that it has lent stays; what needs the database fails.
  EXPECT(iterator->Valid() && iterator->key() == Slice("a") && iterator->value() == Slice("1"));
  iterator->SeekToLast();
  EXPECT(!iterator->Valid() && iterator->status().IsIOError());
  iterator->SeekToFirst();
  EXPECT(!iterator->Valid() && iterator->status().IsIOError());
  EXPECT(DestroyDB(path, options).ok());
}

// A child that was forked has its parent's open database: every call fails, what it has can be
// deleted, and the parent's database stays whole.
static void forked(const std::string& path) {
  Options options;
  options.create_if_missing = true;
  DB* opened;
  EXPECT(DB::Open(options, path, &opened).ok() && opened->Put(WriteOptions(), "a", "1").ok());
  Iterator* iterator = opened->NewIterator(ReadOptions());
  const Snapshot* snapshot = opened->GetSnapshot();
  const pid_t child = fork();
  EXPECT(child >= 0);
  if (child == 0) {
    std::string value;
    EXPECT(opened->Put(WriteOptions(), "b", "2").IsIOError());
    EXPECT(opened->Get(ReadOptions(), "a", &value).IsIOError());
    WriteBatch batch;
    batch.Put("c", "3");
    EXPECT(opened->Write(WriteOptions(), &batch).IsIOError());
    iterator->SeekToFirst();
    EXPECT(!iterator->Valid() && iterator->status().IsIOError());
    DB* second;
    EXPECT(!DB::Open(options, path, &second).ok() && !DestroyDB(path, options).ok());
    delete iterator;
    opened->ReleaseSnapshot(snapshot);
    delete opened;
    std::exit(0);
  }
  int ended;
  EXPECT(waitpid(child, &ended, 0) == child && ended == 0);
  EXPECT(opened->Put(WriteOptions(), "d", "4").ok());
  iterator->SeekToFirst();
  EXPECT(iterator->Valid() && iterator->key() == Slice("a"));
  delete iterator;
  opened->ReleaseSnapshot(snapshot);
  delete opened;
  options.create_if_missing = false;
  EXPECT(DB::Open(options, path, &opened).ok());
  std::string keys;
  const std::unique_ptr<Iterator> all(opened->NewIterator(ReadOptions()));
  for (all->SeekToFirst(); all->Valid(); all->Next()) keys += all->key().ToString();
  EXPECT(keys == "ad");
  delete opened;
  EXPECT(DestroyDB(path, options).ok());
}

static void tables() {
  Table* table = reinterpret_cast<Table*>(1);
  EXPECT(Table::Open(Options(), nullptr, 0, &table).IsNotSupportedError() && table == nullptr);
  TableBuilder builder(Options(), nullptr);
  builder.Add("k", "v");
  builder.Flush();
  EXPECT(builder.status().IsNotSupportedError() && builder.Finish().IsNotSupportedError());
  EXPECT(builder.NumEntries() == 0 && builder.FileSize() == 0);
  EXPECT(DumpFile(Env::Default(), "000005.ldb", nullptr).IsNotSupportedError());
}

// What LevelDB's library does not have, or does not export.
#ifdef EVENDB_LEVELDB_DB_H_
class Lines : public Logger {
 public:
  void Logv(const char* format, std::va_list arguments) override {
    char line[100];
    std::vsnprintf(line, sizeof(line), format, arguments);
    all += line;
  }
  std::string all;
};

static void additions(const std::string& path) {
  Lines lines;
  Log(&lines, "a line %d", 7);
  Log(nullptr, "nowhere");
  EXPECT(lines.all == "a line 7");
  Options options;
  options.create_if_missing = true;
  DB* opened;
  const Status status = OpenWithLayout(options, path, "rows", &opened);
  EXPECT(opened == nullptr && status.ToString().find("no layout \"rows\"") != std::string::npos);
  EXPECT(OpenWithLayout(options, path, "guards", &opened).ok());
  delete opened;
  EXPECT(DestroyDB(path, options).ok());
}
#else
static void additions(const std::string&) {}
#endif

int main(int count, char** arguments) {
  EXPECT(count == 2 && kMajorVersion == 1 && kMinorVersion == 23);
  slices();
  statuses();
  batches();
  comparators();
  filters();
  caches();
  environment(arguments[1]);
  database(arguments[1]);
  own_classes(arguments[1]);
  memory(arguments[1]);
  left_behind(arguments[1]);
  forked(arguments[1]);
  tables();
  additions(arguments[1]);
  std::cout << "all of it" << std::endl;
}
