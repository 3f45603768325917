/* What EvenDB adds to LevelDB's C interface. */

#ifndef EVENDB_LEVELDB_EVENDB_H_
#define EVENDB_LEVELDB_EVENDB_H_

#include "leveldb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The engine of a database that is created: "evendb" or "flsm". NULL, and the default, is what the environment variable
   EVENDB_LEVELDB_ENGINE names, or else evendb. With any other name creating fails. A database that is there is opened by
   the engine that made it, whatever is set. */
LEVELDB_EXPORT void evendb_options_set_engine(leveldb_options_t* options, const char* name);

#ifdef __cplusplus
}  /* extern "C" */
#endif

#endif
