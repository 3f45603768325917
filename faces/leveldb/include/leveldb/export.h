/* The names of the library that a program sees: all names that the headers declare. */

#ifndef EVENDB_LEVELDB_EXPORT_H_
#define EVENDB_LEVELDB_EXPORT_H_

#ifndef LEVELDB_EXPORT
#if defined(__GNUC__)
#define LEVELDB_EXPORT __attribute__((visibility("default")))
#else
#define LEVELDB_EXPORT
#endif
#endif

/* Stands before each C++ function that the library defines. The linker's name of such a function is
   not LevelDB's name, because the classes here have another layout: a program that was compiled
   with LevelDB's headers finds none of these functions and is not started. The names in the source
   stay LevelDB's. The number goes up with the layout. */
#if defined(__cplusplus) && defined(__GNUC__)
#define EVENDB_LEVELDB_OWN __attribute__((abi_tag("evendb1")))
#else
#define EVENDB_LEVELDB_OWN
#endif

#endif
