/* LevelDB's C interface over evendb.h: the functions of leveldb/c.h in plain C.
 *
 *   a program      leveldb_put(db, options, key, keylen, ...)
 *       |
 *   this file      options become texts, iterators become two cursors of a snapshot
 *       |
 *   libevendb      evendb_put(keyspace, key, key_size, ...)
 *
 * It shows that evendb.h carries a whole face of another store, and it is an example of one. The
 * library that is installed (`scripts/leveldb-install`) is the one in Rust: it does the same
 * without this step between, and has databases in memory and repair in place. LevelDB's own tests
 * run over both (`FACE=c scripts/check-leveldb`).
 *
 * THREADS. As LevelDB: a database and its snapshots may be used by any threads at once, and any
 * other handle by one thread at a time.
 *
 * NOT HERE: databases in memory, and repair of damage; both are an error. Comparators of the
 * program are refused. */

#define _GNU_SOURCE

#include <dirent.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "evendb.h"
#include "leveldb/c.h"
#include "leveldb/evendb.h"

/* The only order of keys, by its name in LevelDB. */
static const char kBytewise[] = "leveldb.BytewiseComparator";

struct leveldb_t {
  evendb_db *db;
  evendb_keyspace *records;
  char *path;
  pthread_mutex_t lock;
  /* Those that are not released yet; under the lock. */
  leveldb_snapshot_t *snapshots;
};

/* A moment of a database, with a count of its owners. */
struct leveldb_snapshot_t {
  atomic_size_t owners;
  evendb_snapshot *moment;
  /* Why there is no moment; reads of the snapshot give this. */
  char *failure;
  leveldb_snapshot_t *next;
};

struct leveldb_options_t {
  char *comparator;
  char *layout;
  int compression, max_open_files, filter_bits;
  bool create_if_missing, error_if_exists, is_in_memory;
  size_t write_buffer, cache, block, file;
};

struct leveldb_readoptions_t {
  const leveldb_snapshot_t *snapshot;
};

struct leveldb_writeoptions_t {
  bool sync;
};

struct leveldb_iterator_t {
  leveldb_snapshot_t *snapshot;
  const evendb_keyspace *records;
  /* Each is made when it is first needed. The one that gave the record lends it until it moves. */
  evendb_cursor *cursors[2];
  int given_by;
  const void *key, *value;
  size_t key_size, value_size;
  char *failure;
};

enum { FORWARD = 0, BACKWARD = 1 };

/* Writes one behind the other, each as a head and its bytes. */
struct leveldb_writebatch_t {
  char *bytes;
  size_t used, capacity;
};

struct head {
  size_t key, value;
  bool is_put;
};

struct leveldb_comparator_t {
  void *state;
  void (*destructor)(void *);
  const char *(*name)(void *);
};

struct leveldb_filterpolicy_t {
  void *state;
  void (*destructor)(void *);
  int bits;
};

struct leveldb_cache_t {
  size_t capacity;
};

struct leveldb_env_t {
  char unused;
};

/* ---- Errors -------------------------------------------------------------------------------- */

static void *have(void *memory) {
  if (memory == NULL) abort();
  return memory;
}

static char *copy_of(const void *bytes, size_t size) {
  char *copy = have(malloc(size + 1));
  if (size > 0) memcpy(copy, bytes, size);
  copy[size] = 0;
  return copy;
}

__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...) {
  va_list arguments;
  char *made = NULL;
  va_start(arguments, format);
  if (vasprintf(&made, format, arguments) < 0) abort();
  va_end(arguments);
  return made;
}

/* Replaces the text in the caller's place, which takes the failure. */
static void tell(char **errptr, char *failure) {
  if (failure == NULL) return;
  if (errptr == NULL) {
    free(failure);
    return;
  }
  free(*errptr);
  *errptr = failure;
}

/* The word by which programs tell LevelDB's errors apart. */
static const char *word_of(evendb_status status) {
  switch (status) {
    case EVENDB_CORRUPTION:
      return "Corruption";
    case EVENDB_UNSUPPORTED:
    case EVENDB_NEEDS_KEY:
    case EVENDB_MERGE_FAILED:
      return "Not implemented";
    case EVENDB_KEY_TOO_LARGE:
    case EVENDB_VALUE_TOO_LARGE:
    case EVENDB_BATCH_TOO_LARGE:
    case EVENDB_INVALID_ARGUMENT:
    case EVENDB_NOT_FOUND:
    case EVENDB_ALREADY_EXISTS:
      return "Invalid argument";
    default:
      return "IO error";
  }
}

/* An outcome in LevelDB's form: NULL for success. Frees the error, whose place is read here: the
 * call that fills it may be an argument, too. */
static char *failure_of(evendb_status status, evendb_error **place) {
  evendb_error *error = *place;
  char *failure = NULL;
  if (status != EVENDB_OK) failure = text("%s: %s", word_of(status), evendb_error_message(error));
  evendb_error_free(error);
  return failure;
}

/* ---- Opening ------------------------------------------------------------------------------- */

static void set(evendb_options *options, const char *name, const char *value, char **failure) {
  evendb_error *error = NULL;
  if (*failure == NULL)
    *failure = failure_of(evendb_options_set(options, name, value, &error), &error);
}

static void set_number(evendb_options *options, const char *name, size_t value, char **failure) {
  char digits[32];
  snprintf(digits, sizeof digits, "%zu", value);
  set(options, name, digits, failure);
}

static size_t between(size_t value, size_t least, size_t greatest) {
  if (value < least) return least;
  return value < greatest ? value : greatest;
}

static char *check_comparator(const leveldb_options_t *options) {
  if (options->comparator == NULL || strcmp(options->comparator, kBytewise) == 0) return NULL;
  return text(
      "Not implemented: comparator %s: keys are sorted by their bytes, which is the comparator %s; "
      "make "
      "keys whose bytes sort as they shall",
      options->comparator, kBytewise);
}

/* The options as texts of docs/options.md. LevelDB's defaults become EvenDB's own. */
static evendb_options *translated(const leveldb_options_t *given, char **failure) {
  evendb_options *options = NULL;
  evendb_error *error = NULL;
  const char *layout = given->layout != NULL ? given->layout : getenv("EVENDB_LEVELDB_LAYOUT");
  *failure = failure_of(evendb_options_create(&options, &error), &error);
  /* The cache, and two write buffers. A value may take a quarter of it, so it is not small. */
  const size_t budget = given->cache + 2 * between(given->write_buffer, 0, (size_t)1 << 40);
  set_number(options, "memory_budget", between(budget, (size_t)256 << 20, (size_t)16 << 40),
             failure);
  set(options, "durability", "process", failure);
  set(options, "create_if_missing", given->create_if_missing ? "on" : "off", failure);
  set(options, "error_if_exists", given->error_if_exists ? "on" : "off", failure);
  set_number(options, "filter_bits_per_key", (size_t)given->filter_bits, failure);
  if (layout != NULL && *layout != 0) set(options, "layout", layout, failure);
  switch (given->compression) {
    case leveldb_no_compression:
      set(options, "compression", "none", failure);
      break;
    case leveldb_snappy_compression:
      set(options, "compression", "lz4", failure);
      break;
    default:
      if (*failure == NULL)
        *failure = text("Invalid argument: compression %d: 0 is none, 1 is a fast one",
                        given->compression);
  }
  if (given->max_open_files != 1000) {
    const long limit = sysconf(_SC_OPEN_MAX) / 2;
    const size_t files = given->max_open_files > 16 ? (size_t)given->max_open_files : 16;
    set_number(options, "open_files_max", between(files, 1, limit > 0 ? (size_t)limit : files),
               failure);
  }
  if (given->file != (size_t)2 << 20)
    set_number(options, "guards.table_bytes_max",
               between(given->file, (size_t)1 << 20, (size_t)1 << 30), failure);
  if (given->block != 4096)
    set_number(options, "block_bytes", between(given->block, 64, (size_t)1 << 20), failure);
  return options;
}

/* Refuses a directory that LevelDB itself made: its CURRENT names a manifest. */
static char *refuse_leveldb(const char *path) {
  char begin[9] = {0}, *name = text("%s/CURRENT", path);
  FILE *current = fopen(name, "rb");
  free(name);
  if (current == NULL) return NULL;
  const size_t read = fread(begin, 1, sizeof begin, current);
  fclose(current);
  if (read < sizeof begin || memcmp(begin, "MANIFEST-", sizeof begin) != 0) return NULL;
  return text(
      "Not implemented: %s: the files are those of LevelDB itself (or RocksDB), which are not read "
      "here, and "
      "nothing was changed; `evendb import NEW %s` brings the records of a LevelDB database over",
      path, path);
}

/* The failure of an opening, in LevelDB's words where programs look for them. Frees the error. */
static char *opening_failed(const char *path, const leveldb_options_t *options,
                            evendb_status status, evendb_error *error) {
  const char *message = evendb_error_message(error);
  char *failure = NULL;
  struct stat found;
  if (status == EVENDB_NOT_FOUND && stat(path, &found) == 0 && S_ISDIR(found.st_mode) &&
      access(path, W_OK) != 0)
    failure = text("IO error: %s/LOCK: Permission denied", path);
  else if (status == EVENDB_NOT_FOUND)
    failure = text("Invalid argument: %s: does not exist (create_if_missing is false): %s", path,
                   message);
  else if (status == EVENDB_ALREADY_EXISTS && options->error_if_exists)
    failure = text("Invalid argument: %s: exists (error_if_exists is true): %s", path, message);
  else if (status == EVENDB_LOCKED)
    failure = text("IO error: lock %s/LOCK: %s", path, message);
  if (failure == NULL) return failure_of(status, &error);
  evendb_error_free(error);
  return failure;
}

leveldb_t *leveldb_open(const leveldb_options_t *options, const char *name, char **errptr) {
  evendb_error *error = NULL;
  char *failure = check_comparator(options);
  if (failure == NULL && options->is_in_memory)
    failure =
        text("Not implemented: %s: databases in memory are in the installed library alone", name);
  if (failure == NULL) failure = refuse_leveldb(name);
  if (failure != NULL) {
    tell(errptr, failure);
    return NULL;
  }
  leveldb_t *made = have(calloc(1, sizeof *made));
  evendb_options *translation = translated(options, &failure);
  if (failure == NULL) {
    const evendb_status status = evendb_open(name, translation, &made->db, &error);
    if (status != EVENDB_OK) failure = opening_failed(name, options, status, error);
  }
  evendb_options_free(translation);
  if (failure == NULL) {
    const evendb_status status = evendb_default_keyspace(made->db, &made->records, &error);
    failure = failure_of(status, &error);
  }
  if (failure != NULL) {
    evendb_free(made->db);
    free(made);
    tell(errptr, failure);
    return NULL;
  }
  made->path = copy_of(name, strlen(name));
  pthread_mutex_init(&made->lock, NULL);
  return made;
}

static void let_go(leveldb_snapshot_t *snapshot) {
  if (atomic_fetch_sub(&snapshot->owners, 1) > 1) return;
  evendb_snapshot_free(snapshot->moment);
  free(snapshot->failure);
  free(snapshot);
}

void leveldb_close(leveldb_t *db) {
  if (db == NULL) return;
  while (db->snapshots != NULL) {
    leveldb_snapshot_t *next = db->snapshots->next;
    let_go(db->snapshots);
    db->snapshots = next;
  }
  /* Nobody is left who could get an error. Acknowledged writes are in the commit log. */
  evendb_close(db->db, NULL);
  evendb_keyspace_free(db->records);
  evendb_free(db->db);
  pthread_mutex_destroy(&db->lock);
  free(db->path);
  free(db);
}

void leveldb_destroy_db(const leveldb_options_t *options, const char *name, char **errptr) {
  evendb_error *error = NULL;
  char *failure = NULL;
  if (options->is_in_memory)
    failure = text("Not implemented: %s: there are no databases in memory", name);
  if (failure == NULL) failure = refuse_leveldb(name);
  if (failure == NULL) failure = failure_of(evendb_destroy(name, &error), &error);
  tell(errptr, failure);
}

/* Opens it, which verifies what opening reads; damage is not repaired here. */
void leveldb_repair_db(const leveldb_options_t *options, const char *name, char **errptr) {
  leveldb_options_t existing = *options;
  existing.create_if_missing = existing.error_if_exists = false;
  leveldb_close(leveldb_open(&existing, name, errptr));
}

/* ---- Writes -------------------------------------------------------------------------------- */

/* Does all of a batch, or none of it. With `sync` it survives power loss on return, and so do all
 * writes before it. */
static char *write_all(leveldb_t *db, const leveldb_writebatch_t *batch, bool sync) {
  evendb_error *error = NULL;
  evendb_batch *writes = NULL;
  if (batch->used == 0) return sync ? failure_of(evendb_persist(db->db, &error), &error) : NULL;
  char *failure = failure_of(evendb_batch_create(db->db, &writes, &error), &error);
  for (size_t at = 0; failure == NULL && at < batch->used;) {
    struct head head;
    memcpy(&head, batch->bytes + at, sizeof head);
    const char *key = batch->bytes + at + sizeof head;
    evendb_status status = head.is_put
                               ? evendb_batch_put(writes, db->records, key, head.key,
                                                  key + head.key, head.value, &error)
                               : evendb_batch_delete(writes, db->records, key, head.key, &error);
    failure = failure_of(status, &error);
    at += sizeof head + head.key + head.value;
  }
  if (failure == NULL && sync)
    failure = failure_of(evendb_batch_durability(writes, EVENDB_DURABILITY_SYNC, &error), &error);
  if (failure == NULL) failure = failure_of(evendb_batch_commit(writes, &error), &error);
  evendb_batch_free(writes);
  return failure;
}

void leveldb_write(leveldb_t *db, const leveldb_writeoptions_t *options,
                   leveldb_writebatch_t *batch, char **errptr) {
  tell(errptr, write_all(db, batch, options->sync));
}

static void add(leveldb_writebatch_t *batch, bool is_put, const void *key, size_t key_size,
                const void *value, size_t value_size) {
  const struct head head = {key_size, value_size, is_put};
  const size_t needed = batch->used + sizeof head + key_size + value_size;
  if (needed > batch->capacity) {
    batch->capacity = needed + needed / 2;
    batch->bytes = have(realloc(batch->bytes, batch->capacity));
  }
  char *at = batch->bytes + batch->used;
  memcpy(at, &head, sizeof head);
  if (key_size > 0) memcpy(at + sizeof head, key, key_size);
  if (value_size > 0) memcpy(at + sizeof head + key_size, value, value_size);
  batch->used = needed;
}

void leveldb_put(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
                 size_t keylen, const char *val, size_t vallen, char **errptr) {
  evendb_error *error = NULL;
  if (!options->sync) {
    tell(errptr, failure_of(evendb_put(db->records, key, keylen, val, vallen, &error), &error));
    return;
  }
  leveldb_writebatch_t one = {0};
  add(&one, true, key, keylen, val, vallen);
  tell(errptr, write_all(db, &one, true));
  free(one.bytes);
}

void leveldb_delete(leveldb_t *db, const leveldb_writeoptions_t *options, const char *key,
                    size_t keylen, char **errptr) {
  evendb_error *error = NULL;
  if (!options->sync) {
    tell(errptr, failure_of(evendb_delete(db->records, key, keylen, &error), &error));
    return;
  }
  leveldb_writebatch_t one = {0};
  add(&one, false, key, keylen, NULL, 0);
  tell(errptr, write_all(db, &one, true));
  free(one.bytes);
}

leveldb_writebatch_t *leveldb_writebatch_create(void) {
  return have(calloc(1, sizeof(leveldb_writebatch_t)));
}

void leveldb_writebatch_destroy(leveldb_writebatch_t *batch) {
  if (batch != NULL) free(batch->bytes);
  free(batch);
}

void leveldb_writebatch_clear(leveldb_writebatch_t *batch) { batch->used = 0; }

void leveldb_writebatch_put(leveldb_writebatch_t *batch, const char *key, size_t klen,
                            const char *val, size_t vlen) {
  add(batch, true, key, klen, val, vlen);
}

void leveldb_writebatch_delete(leveldb_writebatch_t *batch, const char *key, size_t klen) {
  add(batch, false, key, klen, NULL, 0);
}

void leveldb_writebatch_iterate(const leveldb_writebatch_t *batch, void *state,
                                void (*put)(void *, const char *, size_t, const char *, size_t),
                                void (*deleted)(void *, const char *, size_t)) {
  for (size_t at = 0; at < batch->used;) {
    struct head head;
    memcpy(&head, batch->bytes + at, sizeof head);
    const char *key = batch->bytes + at + sizeof head;
    if (head.is_put)
      put(state, key, head.key, key + head.key, head.value);
    else
      deleted(state, key, head.key);
    at += sizeof head + head.key + head.value;
  }
}

void leveldb_writebatch_append(leveldb_writebatch_t *destination,
                               const leveldb_writebatch_t *source) {
  const size_t more = source->used;
  destination->bytes = have(realloc(destination->bytes, destination->used + more + 1));
  destination->capacity = destination->used + more + 1;
  /* The source may be the destination, so its bytes are looked up after they have moved. */
  memcpy(destination->bytes + destination->used, source->bytes, more);
  destination->used += more;
}

/* ---- Reads --------------------------------------------------------------------------------- */

/* The value that the options see, to be freed by evendb_value_free; NULL if there is none. */
static evendb_value *value_of(leveldb_t *db, const leveldb_readoptions_t *options, const char *key,
                              size_t size, char **errptr) {
  evendb_error *error = NULL;
  evendb_value *value = NULL;
  const leveldb_snapshot_t *snapshot = options->snapshot;
  char *failure = NULL;
  if (snapshot == NULL)
    failure = failure_of(evendb_get(db->records, key, size, &value, &error), &error);
  else if (snapshot->failure != NULL)
    failure = copy_of(snapshot->failure, strlen(snapshot->failure));
  else
    failure = failure_of(
        evendb_snapshot_get(snapshot->moment, db->records, key, size, &value, &error), &error);
  tell(errptr, failure);
  return value;
}

char *leveldb_get(leveldb_t *db, const leveldb_readoptions_t *options, const char *key,
                  size_t keylen, size_t *vallen, char **errptr) {
  evendb_value *value = value_of(db, options, key, keylen, errptr);
  *vallen = evendb_value_size(value);
  char *copy = value != NULL ? copy_of(evendb_value_data(value), *vallen) : NULL;
  evendb_value_free(value);
  return copy;
}

uint8_t evendb_leveldb_get(leveldb_t *db, const leveldb_readoptions_t *options, const char *key,
                           size_t keylen, void *state, void (*found)(void *, const char *, size_t),
                           char **errptr) {
  evendb_value *value = value_of(db, options, key, keylen, errptr);
  const uint8_t is_found = value != NULL;
  if (is_found) found(state, evendb_value_data(value), evendb_value_size(value));
  evendb_value_free(value);
  return is_found;
}

/* A moment with one owner. */
static leveldb_snapshot_t *moment(leveldb_t *db) {
  evendb_error *error = NULL;
  leveldb_snapshot_t *made = have(calloc(1, sizeof *made));
  atomic_init(&made->owners, 1);
  made->failure = failure_of(evendb_snapshot_create(db->db, &made->moment, &error), &error);
  return made;
}

const leveldb_snapshot_t *leveldb_create_snapshot(leveldb_t *db) {
  leveldb_snapshot_t *made = moment(db);
  pthread_mutex_lock(&db->lock);
  made->next = db->snapshots;
  db->snapshots = made;
  pthread_mutex_unlock(&db->lock);
  return made;
}

void leveldb_release_snapshot(leveldb_t *db, const leveldb_snapshot_t *snapshot) {
  leveldb_snapshot_t *found = NULL;
  pthread_mutex_lock(&db->lock);
  for (leveldb_snapshot_t **at = &db->snapshots; *at != NULL; at = &(*at)->next) {
    if (*at != snapshot) continue;
    found = *at;
    *at = found->next;
    break;
  }
  pthread_mutex_unlock(&db->lock);
  if (found != NULL) let_go(found);
}

/* ---- Iterators ----------------------------------------------------------------------------- */

leveldb_iterator_t *leveldb_create_iterator(leveldb_t *db, const leveldb_readoptions_t *options) {
  evendb_error *error = NULL;
  leveldb_iterator_t *made = have(calloc(1, sizeof *made));
  if (options->snapshot != NULL) {
    made->snapshot = (leveldb_snapshot_t *)options->snapshot;
    atomic_fetch_add(&made->snapshot->owners, 1);
  } else {
    made->snapshot = moment(db);
  }
  /* A handle of its own: the iterator may outlive its database. */
  evendb_keyspace *records = NULL;
  made->failure = failure_of(evendb_default_keyspace(db->db, &records, &error), &error);
  made->records = records;
  if (made->failure == NULL && made->snapshot->failure != NULL)
    made->failure = copy_of(made->snapshot->failure, strlen(made->snapshot->failure));
  return made;
}

void leveldb_iter_destroy(leveldb_iterator_t *iterator) {
  if (iterator == NULL) return;
  evendb_cursor_free(iterator->cursors[FORWARD]);
  evendb_cursor_free(iterator->cursors[BACKWARD]);
  evendb_keyspace_free((evendb_keyspace *)iterator->records);
  let_go(iterator->snapshot);
  free(iterator->failure);
  free(iterator);
}

/* The cursor of a way, unless the iterator has ended with an error. */
static evendb_cursor *cursor(leveldb_iterator_t *iterator, int way) {
  evendb_error *error = NULL;
  if (iterator->failure != NULL) return NULL;
  if (iterator->cursors[way] == NULL) {
    const evendb_status status =
        evendb_snapshot_cursor(iterator->snapshot->moment, iterator->records, EVENDB_RANGE_ALL, "",
                               0, "", 0, 0, &iterator->cursors[way], &error);
    iterator->failure = failure_of(status, &error);
  }
  return iterator->cursors[way];
}

/* Moves to the next record of a cursor. */
static void step(leveldb_iterator_t *it, int way) {
  evendb_error *error = NULL;
  evendb_cursor *from = cursor(it, way);
  it->key = NULL;
  if (from == NULL) return;
  const evendb_status status =
      way == FORWARD
          ? evendb_cursor_next(from, &it->key, &it->key_size, &it->value, &it->value_size, &error)
          : evendb_cursor_next_back(from, &it->key, &it->key_size, &it->value, &it->value_size,
                                    &error);
  it->given_by = way;
  it->failure = failure_of(status, &error);
}

static void seek(leveldb_iterator_t *it, int way, const void *key, size_t size) {
  evendb_error *error = NULL;
  evendb_cursor *moved = cursor(it, way);
  if (moved == NULL) return;
  const evendb_status status = way == FORWARD ? evendb_cursor_seek(moved, key, size, &error)
                                              : evendb_cursor_seek_back(moved, key, size, &error);
  it->failure = failure_of(status, &error);
}

/* Moves to the neighbour of the record. When the direction changes, the other cursor seeks the
 * record, gives it once more, and then goes on. */
static void go(leveldb_iterator_t *it, int way) {
  if (it->key == NULL) return;
  if (it->given_by != way) {
    seek(it, way, it->key, it->key_size);
    step(it, way);
  }
  step(it, way);
}

uint8_t leveldb_iter_valid(const leveldb_iterator_t *iterator) { return iterator->key != NULL; }

void leveldb_iter_seek_to_first(leveldb_iterator_t *iterator) {
  leveldb_iter_seek(iterator, "", 0);
}

void leveldb_iter_seek_to_last(leveldb_iterator_t *iterator) {
  /* There is no greatest key, so only a new cursor begins at the end. */
  iterator->key = NULL;
  evendb_cursor_free(iterator->cursors[BACKWARD]);
  iterator->cursors[BACKWARD] = NULL;
  step(iterator, BACKWARD);
}

void leveldb_iter_seek(leveldb_iterator_t *iterator, const char *k, size_t klen) {
  /* The key may be the one that the cursor lends. */
  char *copy = copy_of(k, klen);
  seek(iterator, FORWARD, copy, klen);
  free(copy);
  step(iterator, FORWARD);
}

void leveldb_iter_next(leveldb_iterator_t *iterator) { go(iterator, FORWARD); }

void leveldb_iter_prev(leveldb_iterator_t *iterator) { go(iterator, BACKWARD); }

const char *leveldb_iter_key(const leveldb_iterator_t *iterator, size_t *klen) {
  *klen = iterator->key != NULL ? iterator->key_size : 0;
  return iterator->key;
}

const char *leveldb_iter_value(const leveldb_iterator_t *iterator, size_t *vlen) {
  *vlen = iterator->key != NULL ? iterator->value_size : 0;
  return iterator->key != NULL ? iterator->value : NULL;
}

void leveldb_iter_get_error(const leveldb_iterator_t *iterator, char **errptr) {
  if (iterator->failure != NULL)
    tell(errptr, copy_of(iterator->failure, strlen(iterator->failure)));
}

/* ---- Figures and compaction ---------------------------------------------------------------- */

/* The number of tables in the directory, and a line for each in `lines`. */
static size_t tables(const leveldb_t *db, FILE *lines) {
  DIR *directory = opendir(db->path);
  size_t count = 0;
  if (directory == NULL) return 0;
  for (struct dirent *entry = readdir(directory); entry != NULL; entry = readdir(directory)) {
    const size_t length = strlen(entry->d_name);
    struct stat found;
    if (length < 4 || strcmp(entry->d_name + length - 4, ".sst") != 0) continue;
    char *path = text("%s/%s", db->path, entry->d_name);
    if (lines != NULL && stat(path, &found) == 0)
      fprintf(lines, " %s:%llu\n", entry->d_name, (unsigned long long)found.st_size);
    free(path);
    count += 1;
  }
  closedir(directory);
  return count;
}

/* The levels are those of the installed library: runs may overlap in 0, tables are in 6. */
static char *files_by_level(const leveldb_t *db) {
  char *made = NULL;
  size_t size = 0;
  FILE *lines = have(open_memstream(&made, &size));
  for (int level = 0; level < 7; level += 1) {
    fprintf(lines, "--- level %d ---\n", level);
    if (level == 6) tables(db, lines);
  }
  fclose(lines);
  return made;
}

char *leveldb_property_value(leveldb_t *db, const char *propname) {
  static const char kFilesAt[] = "leveldb.num-files-at-level";
  char *made = NULL;
  evendb_stats *stats = NULL;
  uint64_t memory = 0;
  if (strcmp(propname, "leveldb.sstables") == 0) return files_by_level(db);
  if (strncmp(propname, kFilesAt, sizeof kFilesAt - 1) == 0) {
    const char *level = propname + sizeof kFilesAt - 1;
    if (level[0] < '0' || level[0] > '6' || level[1] != 0) return NULL;
    return text("%zu", level[0] == '6' ? tables(db, NULL) : 0);
  }
  if (evendb_stats_take(db->db, &stats, NULL) != EVENDB_OK) return NULL;
  if (strcmp(propname, "leveldb.stats") == 0)
    made = copy_of(evendb_stats_text(stats), strlen(evendb_stats_text(stats)));
  if (strcmp(propname, "leveldb.approximate-memory-usage") == 0 &&
      evendb_stats_get(stats, "memory.used", &memory, NULL) == EVENDB_OK)
    made = text("%llu", (unsigned long long)memory);
  evendb_stats_free(stats);
  return made;
}

void leveldb_approximate_sizes(leveldb_t *db, int num_ranges, const char *const *range_start_key,
                               const size_t *range_start_key_len,
                               const char *const *range_limit_key,
                               const size_t *range_limit_key_len, uint64_t *sizes) {
  for (int n = 0; n < num_ranges; n += 1)
    evendb_approximate_size(db->records, EVENDB_RANGE_BETWEEN, range_start_key[n],
                            range_start_key_len[n], range_limit_key[n], range_limit_key_len[n],
                            NULL, &sizes[n], NULL);
}

void leveldb_compact_range(leveldb_t *db, const char *start_key, size_t start_key_len,
                           const char *limit_key, size_t limit_key_len) {
  /* A failed compaction has changed no record, and writes and reads will show the problem. */
  if (limit_key == NULL) {
    evendb_keyspace_compact(db->records, EVENDB_RANGE_FROM, start_key,
                            start_key == NULL ? 0 : start_key_len, "", 0, NULL, NULL);
    return;
  }
  /* The limit belongs to the range in LevelDB: the key behind it is the same with a 0. */
  char *behind = copy_of(limit_key, limit_key_len);
  evendb_keyspace_compact(db->records, EVENDB_RANGE_BETWEEN, start_key,
                          start_key == NULL ? 0 : start_key_len, behind, limit_key_len + 1, NULL,
                          NULL);
  free(behind);
}

/* ---- Options ------------------------------------------------------------------------------- */

leveldb_options_t *leveldb_options_create(void) {
  leveldb_options_t *made = have(calloc(1, sizeof *made));
  made->compression = leveldb_snappy_compression;
  made->max_open_files = 1000;
  made->write_buffer = (size_t)4 << 20;
  made->cache = (size_t)8 << 20;
  made->block = 4096;
  made->file = (size_t)2 << 20;
  return made;
}

void leveldb_options_destroy(leveldb_options_t *options) {
  if (options == NULL) return;
  free(options->comparator);
  free(options->layout);
  free(options);
}

void leveldb_options_set_comparator(leveldb_options_t *options, leveldb_comparator_t *comparator) {
  const char *name = comparator != NULL ? comparator->name(comparator->state) : NULL;
  free(options->comparator);
  options->comparator = name != NULL ? copy_of(name, strlen(name)) : NULL;
}

void leveldb_options_set_filter_policy(leveldb_options_t *options, leveldb_filterpolicy_t *policy) {
  options->filter_bits = policy != NULL ? policy->bits : 0;
}

void leveldb_options_set_create_if_missing(leveldb_options_t *options, uint8_t yes) {
  options->create_if_missing = yes != 0;
}

void leveldb_options_set_error_if_exists(leveldb_options_t *options, uint8_t yes) {
  options->error_if_exists = yes != 0;
}

void leveldb_options_set_write_buffer_size(leveldb_options_t *options, size_t bytes) {
  options->write_buffer = bytes;
}

void leveldb_options_set_max_open_files(leveldb_options_t *options, int files) {
  options->max_open_files = files;
}

void leveldb_options_set_cache(leveldb_options_t *options, leveldb_cache_t *cache) {
  options->cache = cache != NULL ? cache->capacity : (size_t)8 << 20;
}

void leveldb_options_set_block_size(leveldb_options_t *options, size_t bytes) {
  options->block = bytes;
}

void leveldb_options_set_max_file_size(leveldb_options_t *options, size_t bytes) {
  options->file = bytes;
}

void leveldb_options_set_compression(leveldb_options_t *options, int compression) {
  options->compression = compression;
}

void evendb_leveldb_options_set_layout(leveldb_options_t *options, const char *name) {
  free(options->layout);
  options->layout = name != NULL ? copy_of(name, strlen(name)) : NULL;
}

/* Nothing to set: docs/leveldb.md says why. */
void leveldb_options_set_paranoid_checks(leveldb_options_t *options, uint8_t yes) {
  (void)options, (void)yes;
}
void leveldb_options_set_env(leveldb_options_t *options, leveldb_env_t *env) {
  (void)options, (void)env;
}
void leveldb_options_set_info_log(leveldb_options_t *options, leveldb_logger_t *log) {
  (void)options, (void)log;
}
void leveldb_options_set_block_restart_interval(leveldb_options_t *options, int keys) {
  (void)options, (void)keys;
}

leveldb_readoptions_t *leveldb_readoptions_create(void) {
  return have(calloc(1, sizeof(leveldb_readoptions_t)));
}
void leveldb_readoptions_destroy(leveldb_readoptions_t *options) { free(options); }
void leveldb_readoptions_set_verify_checksums(leveldb_readoptions_t *options, uint8_t yes) {
  (void)options, (void)yes;
}
void leveldb_readoptions_set_fill_cache(leveldb_readoptions_t *options, uint8_t yes) {
  (void)options, (void)yes;
}
void leveldb_readoptions_set_snapshot(leveldb_readoptions_t *options,
                                      const leveldb_snapshot_t *snapshot) {
  options->snapshot = snapshot;
}

leveldb_writeoptions_t *leveldb_writeoptions_create(void) {
  return have(calloc(1, sizeof(leveldb_writeoptions_t)));
}
void leveldb_writeoptions_destroy(leveldb_writeoptions_t *options) { free(options); }
void leveldb_writeoptions_set_sync(leveldb_writeoptions_t *options, uint8_t yes) {
  options->sync = yes != 0;
}

/* ---- Comparators, filters, caches, environments --------------------------------------------- */

leveldb_comparator_t *leveldb_comparator_create(void *state, void (*destructor)(void *),
                                                int (*compare)(void *, const char *, size_t,
                                                               const char *, size_t),
                                                const char *(*name)(void *)) {
  (void)compare;
  leveldb_comparator_t *made = have(calloc(1, sizeof *made));
  *made = (leveldb_comparator_t){state, destructor, name};
  return made;
}

void leveldb_comparator_destroy(leveldb_comparator_t *comparator) {
  if (comparator != NULL) comparator->destructor(comparator->state);
  free(comparator);
}

leveldb_filterpolicy_t *leveldb_filterpolicy_create(
    void *state, void (*destructor)(void *),
    char *(*create_filter)(void *, const char *const *, const size_t *, int, size_t *),
    uint8_t (*key_may_match)(void *, const char *, size_t, const char *, size_t),
    const char *(*name)(void *)) {
  (void)create_filter, (void)key_may_match, (void)name;
  leveldb_filterpolicy_t *made = have(calloc(1, sizeof *made));
  *made = (leveldb_filterpolicy_t){state, destructor, 0};
  return made;
}

leveldb_filterpolicy_t *leveldb_filterpolicy_create_bloom(int bits_per_key) {
  leveldb_filterpolicy_t *made = have(calloc(1, sizeof *made));
  made->bits = (int)between(bits_per_key > 0 ? (size_t)bits_per_key : 0, 0, 64);
  return made;
}

void leveldb_filterpolicy_destroy(leveldb_filterpolicy_t *policy) {
  if (policy != NULL && policy->destructor != NULL) policy->destructor(policy->state);
  free(policy);
}

leveldb_cache_t *leveldb_cache_create_lru(size_t capacity) {
  leveldb_cache_t *made = have(calloc(1, sizeof *made));
  made->capacity = capacity;
  return made;
}

void leveldb_cache_destroy(leveldb_cache_t *cache) { free(cache); }

leveldb_env_t *leveldb_create_default_env(void) { return have(calloc(1, sizeof(leveldb_env_t))); }
void leveldb_env_destroy(leveldb_env_t *env) { free(env); }

char *leveldb_env_get_test_directory(leveldb_env_t *env) {
  const char *named = getenv("TEST_TMPDIR");
  (void)env;
  char *path = named != NULL && *named != 0 ? copy_of(named, strlen(named))
                                            : text("/tmp/leveldbtest-%u", (unsigned)geteuid());
  /* If it cannot be made, its first use fails. */
  (void)mkdir(path, 0777);
  return path;
}

/* There is no disk in memory here: opening a database on one is an error. */
struct evendb_leveldb_memory_t {
  char unused;
};

evendb_leveldb_memory_t *evendb_leveldb_memory_create(void) {
  return have(calloc(1, sizeof(evendb_leveldb_memory_t)));
}
void evendb_leveldb_memory_destroy(evendb_leveldb_memory_t *disk) { free(disk); }
void evendb_leveldb_options_set_memory(leveldb_options_t *options,
                                       const evendb_leveldb_memory_t *disk) {
  options->is_in_memory = disk != NULL;
}

void leveldb_free(void *ptr) { free(ptr); }
int leveldb_major_version(void) { return 1; }
int leveldb_minor_version(void) { return 23; }
