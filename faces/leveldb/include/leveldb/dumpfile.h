// Shows a file of LevelDB's own format, which EvenDB does not read. `evendb` shows its own files.

#ifndef EVENDB_LEVELDB_DUMPFILE_H_
#define EVENDB_LEVELDB_DUMPFILE_H_

#include <string>

#include "leveldb/env.h"
#include "leveldb/export.h"
#include "leveldb/status.h"

namespace leveldb {

// Always NotSupported. Nothing is written to `dst`.
LEVELDB_EXPORT Status DumpFile(Env* env, const std::string& fname, WritableFile* dst);

}  // namespace leveldb

#endif
