// Databases and files in memory.

#ifndef EVENDB_LEVELDB_HELPERS_MEMENV_H_
#define EVENDB_LEVELDB_HELPERS_MEMENV_H_

#include "leveldb/export.h"

namespace leveldb {

class Env;

// An environment whose files are in memory, and go with it. Threads and the clock are those of
// `base_env`. The caller has to destroy it after the databases that were opened with it. The files
// of those databases lie apart from the files that the program makes through the environment.
LEVELDB_EXPORT Env* NewMemEnv(Env* base_env);

}  // namespace leveldb

#endif
