/* What EvenDB adds to LevelDB's C interface. */

#ifndef EVENDB_LEVELDB_EVENDB_H_
#define EVENDB_LEVELDB_EVENDB_H_

#include "leveldb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The layout of a database that is created: "chunks" or "guards". NULL, which is the default, stands
   for the layout that the environment variable EVENDB_LEVELDB_LAYOUT names, or otherwise for
   chunks. With any other name opening fails. An existing database keeps its layout. */
LEVELDB_EXPORT void evendb_leveldb_options_set_layout(leveldb_options_t* options, const char* name);

/* A disk in the memory of the process, for databases that are opened with it, by their names. It
   lives as long as its handle or such a database, whichever ends later. */
typedef struct evendb_leveldb_memory_t evendb_leveldb_memory_t;

LEVELDB_EXPORT evendb_leveldb_memory_t* evendb_leveldb_memory_create(void);
LEVELDB_EXPORT void evendb_leveldb_memory_destroy(evendb_leveldb_memory_t*);

/* The disk in memory on which the database is opened or destroyed; NULL, which is the default, is
   the real one. */
LEVELDB_EXPORT void evendb_leveldb_options_set_memory(leveldb_options_t* options, const evendb_leveldb_memory_t* disk);

/* As leveldb_get(), without a copy: `found` is called once with the value, before the call returns,
   if there is one. The bytes are lent until `found` returns. Returns 1 if there is a value, and 0
   if there is none or after an error. */
LEVELDB_EXPORT uint8_t evendb_leveldb_get(leveldb_t* db, const leveldb_readoptions_t* options, const char* key,
                                  size_t keylen, void* state,
                                  void (*found)(void* state, const char* value, size_t length),
                                  char** errptr);

#ifdef __cplusplus
}  /* extern "C" */
#endif

#endif
