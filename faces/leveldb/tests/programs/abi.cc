// Prints what a compiled program knows of LevelDB's classes: sizes, places of members, places of
// virtual functions in their tables, defaults, and the bytes of objects that a program copies without
// asking the library. tests/programs.rs compiles it with our headers, and scripts/check-leveldb-programs
// with LevelDB's own; both compare with tests/facts/classes.
//
// Where a pointer to a member function has the place of a virtual function is the rule of the
// Itanium ABI on x86-64: its first word is 1 and eight times the place.

#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>

#include "leveldb/cache.h"
#include "leveldb/comparator.h"
#include "leveldb/db.h"
#include "leveldb/env.h"
#include "leveldb/filter_policy.h"
#include "leveldb/iterator.h"
#include "leveldb/options.h"
#include "leveldb/status.h"
#include "leveldb/table.h"
#include "leveldb/table_builder.h"
#include "leveldb/write_batch.h"

using namespace leveldb;

#define SIZE(type) std::printf("size " #type " %zu\n", sizeof(type))
#define MEMBER(type, member) std::printf("member " #type "::" #member " %zu\n", offsetof(type, member))
#define VIRTUAL(type, function) std::printf("virtual " #type "::" #function " %zu\n", PlaceOf(&type::function))
#define DEFAULT(type, member) \
  std::printf("default " #type "::" #member " %llu\n", static_cast<unsigned long long>(type().member))

template <typename Function>
static size_t PlaceOf(Function function) {
  size_t word;
  std::memcpy(&word, &function, sizeof(word));
  return (word - 1) / sizeof(void*);
}

static void Bytes(const char* name, const char* bytes, size_t count) {
  std::printf("bytes %s ", name);
  for (size_t n = 0; n < count; n++) std::printf("%02x", static_cast<unsigned char>(bytes[n]));
  std::printf("\n");
}

static void Options_() {
  SIZE(Options);
  MEMBER(Options, comparator);
  MEMBER(Options, create_if_missing);
  MEMBER(Options, error_if_exists);
  MEMBER(Options, paranoid_checks);
  MEMBER(Options, env);
  MEMBER(Options, info_log);
  MEMBER(Options, write_buffer_size);
  MEMBER(Options, max_open_files);
  MEMBER(Options, block_cache);
  MEMBER(Options, block_size);
  MEMBER(Options, block_restart_interval);
  MEMBER(Options, max_file_size);
  MEMBER(Options, compression);
  MEMBER(Options, reuse_logs);
  MEMBER(Options, filter_policy);
  DEFAULT(Options, create_if_missing);
  DEFAULT(Options, error_if_exists);
  DEFAULT(Options, paranoid_checks);
  DEFAULT(Options, write_buffer_size);
  DEFAULT(Options, max_open_files);
  DEFAULT(Options, block_size);
  DEFAULT(Options, block_restart_interval);
  DEFAULT(Options, max_file_size);
  DEFAULT(Options, compression);
  DEFAULT(Options, reuse_logs);
  SIZE(ReadOptions);
  MEMBER(ReadOptions, verify_checksums);
  MEMBER(ReadOptions, fill_cache);
  MEMBER(ReadOptions, snapshot);
  DEFAULT(ReadOptions, verify_checksums);
  DEFAULT(ReadOptions, fill_cache);
  SIZE(WriteOptions);
  MEMBER(WriteOptions, sync);
  DEFAULT(WriteOptions, sync);
}

static void Databases() {
  SIZE(DB);
  VIRTUAL(DB, Put);
  VIRTUAL(DB, Delete);
  VIRTUAL(DB, Write);
  VIRTUAL(DB, Get);
  VIRTUAL(DB, NewIterator);
  VIRTUAL(DB, GetSnapshot);
  VIRTUAL(DB, ReleaseSnapshot);
  VIRTUAL(DB, GetProperty);
  VIRTUAL(DB, GetApproximateSizes);
  VIRTUAL(DB, CompactRange);
  SIZE(Snapshot);
  SIZE(Range);
  MEMBER(Range, start);
  MEMBER(Range, limit);
  SIZE(Iterator);
  VIRTUAL(Iterator, Valid);
  VIRTUAL(Iterator, SeekToFirst);
  VIRTUAL(Iterator, SeekToLast);
  VIRTUAL(Iterator, Seek);
  VIRTUAL(Iterator, Next);
  VIRTUAL(Iterator, Prev);
  VIRTUAL(Iterator, key);
  VIRTUAL(Iterator, value);
  VIRTUAL(Iterator, status);
  SIZE(Table);
  SIZE(TableBuilder);
}

static void Helpers() {
  SIZE(Comparator);
  VIRTUAL(Comparator, Compare);
  VIRTUAL(Comparator, Name);
  VIRTUAL(Comparator, FindShortestSeparator);
  VIRTUAL(Comparator, FindShortSuccessor);
  SIZE(FilterPolicy);
  VIRTUAL(FilterPolicy, Name);
  VIRTUAL(FilterPolicy, CreateFilter);
  VIRTUAL(FilterPolicy, KeyMayMatch);
  SIZE(Cache);
  SIZE(Cache::Handle);
  VIRTUAL(Cache, Insert);
  VIRTUAL(Cache, Lookup);
  VIRTUAL(Cache, Release);
  VIRTUAL(Cache, Value);
  VIRTUAL(Cache, Erase);
  VIRTUAL(Cache, NewId);
  VIRTUAL(Cache, Prune);
  VIRTUAL(Cache, TotalCharge);
}

static void Environments() {
  SIZE(Env);
  VIRTUAL(Env, NewSequentialFile);
  VIRTUAL(Env, NewRandomAccessFile);
  VIRTUAL(Env, NewWritableFile);
  VIRTUAL(Env, NewAppendableFile);
  VIRTUAL(Env, FileExists);
  VIRTUAL(Env, GetChildren);
  VIRTUAL(Env, RemoveFile);
  VIRTUAL(Env, DeleteFile);
  VIRTUAL(Env, CreateDir);
  VIRTUAL(Env, RemoveDir);
  VIRTUAL(Env, DeleteDir);
  VIRTUAL(Env, GetFileSize);
  VIRTUAL(Env, RenameFile);
  VIRTUAL(Env, LockFile);
  VIRTUAL(Env, UnlockFile);
  VIRTUAL(Env, Schedule);
  VIRTUAL(Env, StartThread);
  VIRTUAL(Env, GetTestDirectory);
  VIRTUAL(Env, NewLogger);
  VIRTUAL(Env, NowMicros);
  VIRTUAL(Env, SleepForMicroseconds);
  SIZE(EnvWrapper);
  SIZE(SequentialFile);
  VIRTUAL(SequentialFile, Read);
  VIRTUAL(SequentialFile, Skip);
  SIZE(RandomAccessFile);
  VIRTUAL(RandomAccessFile, Read);
  SIZE(WritableFile);
  VIRTUAL(WritableFile, Append);
  VIRTUAL(WritableFile, Close);
  VIRTUAL(WritableFile, Flush);
  VIRTUAL(WritableFile, Sync);
  SIZE(Logger);
  VIRTUAL(Logger, Logv);
  SIZE(FileLock);
}

static void Objects() {
  SIZE(Slice);
  const char text[] = "ab";
  const Slice slice(text, 2);
  const char* data;
  size_t size;
  std::memcpy(&data, &slice, sizeof(data));
  std::memcpy(&size, reinterpret_cast<const char*>(&slice) + sizeof(data), sizeof(size));
  std::printf("object Slice %s\n", data == text && size == 2 ? "pointer, size" : "another");

  SIZE(Status);
  const Status failed[] = {Status::NotFound("a", "bc"), Status::Corruption("d"), Status::NotSupported(""),
                           Status::InvalidArgument("e"), Status::IOError("f")};
  for (const Status& status : failed) {
    const char* state;
    std::memcpy(&state, &status, sizeof(state));
    Bytes("Status", state, 5 + static_cast<unsigned char>(state[0]));
  }
  const Status good;
  const char* state;
  std::memcpy(&state, &good, sizeof(state));
  std::printf("object Status::OK %s\n", state == nullptr ? "null" : "another");

  SIZE(WriteBatch);
  SIZE(WriteBatch::Handler);
  VIRTUAL(WriteBatch::Handler, Put);
  VIRTUAL(WriteBatch::Handler, Delete);
  WriteBatch batch;
  batch.Put("key", std::string(130, 'v'));
  batch.Delete("");
  const std::string& bytes = reinterpret_cast<const std::string&>(batch);
  Bytes("WriteBatch", bytes.data(), bytes.size());
}

int main() {
  Options_();
  Databases();
  Helpers();
  Environments();
  Objects();
}
