// How a database is opened, read and written. docs/leveldb.md says what each option does here.

#ifndef EVENDB_LEVELDB_OPTIONS_H_
#define EVENDB_LEVELDB_OPTIONS_H_

#include <cstddef>

#include "leveldb/export.h"

namespace leveldb {

class Cache;
class Comparator;
class Env;
class FilterPolicy;
class Logger;
class Snapshot;

enum CompressionType {
  kNoCompression = 0,
  // A fast one. Here it is LZ4.
  kSnappyCompression = 1
};

struct LEVELDB_EXPORT Options {
  Options();

  // BytewiseComparator(), or a comparator of that name. Opening fails with any other.
  const Comparator* comparator;
  bool create_if_missing = false;
  bool error_if_exists = false;
  // No effect: damage is always refused.
  bool paranoid_checks = false;
  // Env::Default(), or an environment of NewMemEnv(). Opening fails with any other.
  Env* env;
  // No effect: nothing is logged.
  Logger* info_log = nullptr;
  // With the cache, it sets the memory budget.
  size_t write_buffer_size = 4 << 20;
  // 1000 stands for EvenDB's own default.
  int max_open_files = 1000;
  // Only its capacity counts. It may go as soon as the database is open.
  Cache* block_cache = nullptr;
  size_t block_size = 4 << 10;
  // No effect: 16.
  int block_restart_interval = 16;
  // A table ends at this many bytes, for the layout guards; 2 MiB stand for its default. No effect
  // for chunks.
  size_t max_file_size = 2 << 20;
  CompressionType compression = kSnappyCompression;
  // No effect: the log is always used on.
  bool reuse_logs = false;
  // NewBloomFilterPolicy(); any other has no effect.
  const FilterPolicy* filter_policy = nullptr;
};

struct LEVELDB_EXPORT ReadOptions {
  ReadOptions() = default;

  // No effect: every block is verified when it is read.
  bool verify_checksums = false;
  // No effect: the database keeps in memory what is read often.
  bool fill_cache = true;
  // The newest moment if it is null.
  const Snapshot* snapshot = nullptr;
};

struct LEVELDB_EXPORT WriteOptions {
  WriteOptions() = default;

  // Whether the write survives power loss when it has returned. If false, it survives the end of
  // the process.
  bool sync = false;
};

}  // namespace leveldb

#endif
