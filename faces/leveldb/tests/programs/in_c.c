/* A C program as it is written for LevelDB: tests/programs.rs compiles it with our header, and
   links it to our library. Its argument is a directory that does not exist. If something is wrong,
   it says so and ends with 1. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "leveldb/c.h"

#define EXPECT(condition)                                                                      \
  do {                                                                                         \
    if (!(condition)) {                                                                        \
      fprintf(stderr, "%s:%d: not so: %s (%s)\n", __FILE__, __LINE__, #condition, error ? error : "no error"); \
      return 1;                                                                                \
    }                                                                                          \
  } while (0)

static int is_text(const char* bytes, size_t length, const char* text) {
  return bytes != NULL && length == strlen(text) && memcmp(bytes, text, length) == 0;
}

static void count_put(void* count, const char* key, size_t key_length, const char* value, size_t value_length) {
  (void)key, (void)value;
  *(size_t*)count += key_length + value_length;
}

static void count_deleted(void* count, const char* key, size_t key_length) {
  (void)key;
  *(size_t*)count += 1000 * key_length;
}

int main(int count, char** arguments) {
  char* error = NULL;
  const char* path = count == 2 ? arguments[1] : "";

  leveldb_options_t* options = leveldb_options_create();
  leveldb_t* db = leveldb_open(options, path, &error);
  EXPECT(db == NULL && error != NULL && strncmp(error, "Invalid argument: ", 18) == 0);
  leveldb_options_set_create_if_missing(options, 1);
  leveldb_cache_t* cache = leveldb_cache_create_lru(16 << 20);
  leveldb_options_set_cache(options, cache);
  leveldb_filterpolicy_t* bloom = leveldb_filterpolicy_create_bloom(10);
  leveldb_options_set_filter_policy(options, bloom);
  leveldb_options_set_compression(options, leveldb_snappy_compression);
  db = leveldb_open(options, path, &error);
  EXPECT(db != NULL && error != NULL);
  free(error);
  error = NULL;

  leveldb_writeoptions_t* write = leveldb_writeoptions_create();
  leveldb_readoptions_t* read = leveldb_readoptions_create();
  leveldb_put(db, write, "ann", 3, "1", 1, &error);
  leveldb_put(db, write, "ben", 3, "", 0, &error);
  leveldb_writeoptions_set_sync(write, 1);
  leveldb_put(db, write, "cid", 3, NULL, 0, &error);
  EXPECT(error == NULL);
  size_t length = 7;
  char* value = leveldb_get(db, read, "ann", 3, &length, &error);
  EXPECT(is_text(value, length, "1"));
  leveldb_free(value);
  value = leveldb_get(db, read, "ben", 3, &length, &error);
  EXPECT(value != NULL && length == 0);
  free(value);
  value = leveldb_get(db, read, "dan", 3, &length, &error);
  EXPECT(value == NULL && length == 0 && error == NULL);

  const leveldb_snapshot_t* snapshot = leveldb_create_snapshot(db);
  leveldb_writebatch_t* batch = leveldb_writebatch_create();
  leveldb_writebatch_put(batch, "ann", 3, "2", 1);
  leveldb_writebatch_delete(batch, "ben", 3);
  size_t told = 0;
  leveldb_writebatch_iterate(batch, &told, count_put, count_deleted);
  EXPECT(told == 3004);
  leveldb_write(db, write, batch, &error);
  leveldb_writebatch_destroy(batch);
  EXPECT(error == NULL);

  leveldb_readoptions_set_snapshot(read, snapshot);
  leveldb_iterator_t* iterator = leveldb_create_iterator(db, read);
  EXPECT(!leveldb_iter_valid(iterator));
  leveldb_iter_seek_to_last(iterator);
  const char* lent = leveldb_iter_key(iterator, &length);
  EXPECT(is_text(lent, length, "cid"));
  leveldb_iter_prev(iterator);
  leveldb_iter_prev(iterator);
  lent = leveldb_iter_value(iterator, &length);
  EXPECT(is_text(lent, length, "1"));
  leveldb_iter_next(iterator);
  lent = leveldb_iter_key(iterator, &length);
  EXPECT(is_text(lent, length, "ben"));
  leveldb_iter_get_error(iterator, &error);
  EXPECT(error == NULL);
  leveldb_iter_destroy(iterator);
  leveldb_readoptions_set_snapshot(read, NULL);
  leveldb_release_snapshot(db, snapshot);

  char* stats = leveldb_property_value(db, "leveldb.stats");
  EXPECT(stats != NULL && strlen(stats) > 0);
  leveldb_free(stats);
  leveldb_compact_range(db, NULL, 0, NULL, 0);
  value = leveldb_get(db, read, "ann", 3, &length, &error);
  EXPECT(is_text(value, length, "2"));
  leveldb_free(value);

  leveldb_close(db);
  leveldb_destroy_db(options, path, &error);
  EXPECT(error == NULL);
  leveldb_readoptions_destroy(read);
  leveldb_writeoptions_destroy(write);
  leveldb_filterpolicy_destroy(bloom);
  leveldb_cache_destroy(cache);
  leveldb_options_destroy(options);
  puts("all of it");
  return 0;
}
