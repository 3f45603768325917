/* EvenDB: an embedded, ordered key-value store. The C interface.
 *
 * This header is the contract: what it says holds for every library with the SONAME libevendb.so.1.
 * docs/c.md leads from an empty directory to a program.
 *
 * HANDLES. Every object is an opaque handle, made by one function and given back by the `_free`
 * function of its kind. NULL given to a `_free` function is nothing. A handle that a call needs and
 * that is NULL is EVENDB_INVALID_ARGUMENT. Handles are counted: keyspaces, snapshots, transactions,
 * cursors, batches, feeds and ingests keep their database alive, in whatever order they are freed.
 * After evendb_close they answer EVENDB_CLOSED. Values, changes, summaries and statistics keep
 * their bytes, also after everything else is gone.
 *
 * STATUS AND ERROR. A call that can fail returns an evendb_status: EVENDB_OK, which is 0, or why
 * it failed. Its last parameter may be NULL. Otherwise it is written by every call and never read:
 * NULL after success, after failure a new evendb_error, which the caller frees. After a failure,
 * places for answers hold NULL or 0, unless the function says otherwise.
 *
 * BYTES are a pointer and a length. (NULL, 0) and (p, 0) are the empty bytes. NULL with another
 * length, a length above PTRDIFF_MAX, and an array whose size overflows are
 * EVENDB_INVALID_ARGUMENT, and nothing is read then. A length of bytes that EvenDB gives may be 0;
 * the pointer is then not NULL. NULL means that there is nothing: no such key, no more records.
 * Bytes that a caller gives are copied during the call, and may be freed or changed after it. Names
 * and texts end with a 0 and are UTF-8; paths end with a 0.
 *
 * THREADS. A handle that a function takes as const may be used by any number of threads at once.
 * Any other handle is used by one thread at a time, which may be another one at each call; a call
 * meanwhile from a second thread is refused with EVENDB_BUSY, and does not wait. No thread may use
 * a handle while it is being freed, or after it was.
 *
 * FORK. In a child of fork, every call on a database that the parent had open answers EVENDB_FORKED
 * and touches nothing; `_free` functions only forget. A child may open databases if its parent had
 * none open. After exec everything is as at a program's start. Open after going to the background.
 *
 * CALLBACKS run in threads of the store as well as in the caller's. They must not call functions of
 * this header (except those that say so; an evendb_done may call almost all), leave by longjmp, or
 * throw.
 *
 * DURABILITY. On return a write survives what the option `durability` says: `relaxed` (a crash of
 * the process may take the last seconds), `process` (the default: a crash of the process loses
 * nothing, a loss of power the last moments) or `sync` (a loss of power loses nothing). A batch or
 * transaction may ask for more. evendb_persist makes all that was written before survive a loss of
 * power.
 *
 * Memory that cannot be had ends the process.
 */
#ifndef EVENDB_H
#define EVENDB_H

#include <stddef.h>
#include <stdint.h>

/* The version of the binary interface for which this header is. It grows when functions are added;
 * what is there does not change. */
#define EVENDB_ABI_VERSION 1

#if defined(__GNUC__)
#define EVENDB_API extern __attribute__((visibility("default")))
#else
#define EVENDB_API extern
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Version ------------------------------------------------------------------------------- */

/* The EVENDB_ABI_VERSION of the library: a program needs one that is at least its header's. */
EVENDB_API uint32_t evendb_abi_version(void);

/* The version of EvenDB, as "0.1.0". Not to be freed. */
EVENDB_API const char *evendb_version(void);

/* ---- Status and error ---------------------------------------------------------------------- */

/* Why a call failed. A later version may return numbers that are not here. */
typedef int32_t evendb_status;

enum {
    EVENDB_OK = 0,
    /* The operating system refused or failed an operation: see evendb_error_errno. */
    EVENDB_IO = 1,
    /* The disk is full. Nothing of the call took effect, unless the message says so; reads go on.
     * */
    EVENDB_NO_SPACE = 2,
    /* No descriptor is left for one more file. Nothing took effect. */
    EVENDB_TOO_MANY_FILES = 3,
    /* Bytes on disk do not verify, or a file is missing. */
    EVENDB_CORRUPTION = 4,
    /* A newer or foreign format; or what this database, as it was opened, does not have. */
    EVENDB_UNSUPPORTED = 5,
    /* A key has more than 65,535 bytes. */
    EVENDB_KEY_TOO_LARGE = 6,
    /* A value has more than 4 GiB - 9 bytes, or more than the memory budget allows. */
    EVENDB_VALUE_TOO_LARGE = 7,
    /* A batch or transaction counts more bytes than the memory budget allows. */
    EVENDB_BATCH_TOO_LARGE = 8,
    /* The database is open elsewhere. */
    EVENDB_LOCKED = 9,
    /* The database was opened for reading only. */
    EVENDB_READ_ONLY = 10,
    /* There is no database, or no backup, at the path. (A missing key is no failure.) */
    EVENDB_NOT_FOUND = 11,
    /* There is a database at the path already, or a directory with other files. */
    EVENDB_ALREADY_EXISTS = 12,
    /* The database was closed. */
    EVENDB_CLOSED = 13,
    /* An earlier write or sync failed: no more writes are taken. Reads go on. */
    EVENDB_LATCHED = 14,
    /* The keyspace was dropped. */
    EVENDB_KEYSPACE_DROPPED = 15,
    /* The keyspace's merge operator failed for a key, or was not given. The operands stay. */
    EVENDB_MERGE_FAILED = 16,
    /* Another write changed what the transaction had read; nothing was written. Begin it anew. */
    EVENDB_CONFLICT = 17,
    /* Another transaction kept a key locked for too long; nothing was written. */
    EVENDB_LOCK_TIMEOUT = 18,
    /* Two transactions would wait for each other; this one wrote nothing. */
    EVENDB_DEADLOCK = 19,
    /* Changes at the position are not kept any more. */
    EVENDB_CHANGES_GONE = 20,
    /* The position lies behind changes that a crash took back, or is of another database. */
    EVENDB_CHANGES_LOST = 21,
    /* Keys of an ingest do not ascend. */
    EVENDB_UNSORTED = 22,
    /* An argument makes no sense: the message says which. */
    EVENDB_INVALID_ARGUMENT = 23,
    /* The database is encrypted, and no key was given. */
    EVENDB_NEEDS_KEY = 24,
    EVENDB_WRONG_KEY = 25,
    EVENDB_NOT_ENCRYPTED = 26,
    /* This is a child of fork, and the database belongs to its parent. */
    EVENDB_FORKED = 27,
    /* The file system makes no hard link there, and copying was not asked for. */
    EVENDB_CANNOT_LINK = 28,
    /* The writer has replaced what this opening beside it reads: call evendb_refresh. */
    EVENDB_STALE = 29,
    /* A defect of EvenDB: a call panicked. The handle of that call answers this from then on, and
     * can only be freed. Other handles go on. */
    EVENDB_PANIC = 100,
    /* An earlier call ended this handle, as a commit ends a batch: it can only be freed. */
    EVENDB_USED_UP = 101,
    /* Another call is using this handle, which one thread at a time may use. */
    EVENDB_BUSY = 102,
    /* The caller's buffer is too small; the function says how much is needed. */
    EVENDB_BUFFER_TOO_SMALL = 103,
    /* A call with a callback was called off: see evendb_task_free. */
    EVENDB_CANCELLED = 104,
    /* A failure that has no number yet: see the message. */
    EVENDB_UNKNOWN = 999
};

/* The name of a status, as "EVENDB_CONFLICT"; "EVENDB_UNKNOWN" for a number without one. Not to be
 * freed. */
EVENDB_API const char *evendb_status_name(evendb_status status);

/* A failure, to be freed. Any threads may read it at once. */
typedef struct evendb_error evendb_error;

/* The status that the call returned; EVENDB_OK for NULL. */
EVENDB_API evendb_status evendb_error_code(const evendb_error *error);

/* What failed, in words, and what can be done. Lives as long as the error. "" for NULL. */
EVENDB_API const char *evendb_error_message(const evendb_error *error);

/* The file that it is about; NULL if there is none. Lives as long as the error. */
EVENDB_API const char *evendb_error_file(const evendb_error *error);

/* The offset in that file, in bytes; UINT64_MAX if there is none. */
EVENDB_API uint64_t evendb_error_offset(const evendb_error *error);

/* The errno of the operating system; 0 if there is none. */
EVENDB_API int32_t evendb_error_errno(const evendb_error *error);

EVENDB_API void evendb_error_free(evendb_error *error);

/* ---- Values -------------------------------------------------------------------------------- */

/* Bytes that a call gave, to be freed. A value from memory or from a cache is not copied: it keeps
 * the place where it lies. So hold values briefly, or copy them. Any threads may read it at once.
 * */
typedef struct evendb_value evendb_value;

/* Its bytes, which live as long as the value. NULL for NULL, and for no other value. */
EVENDB_API const void *evendb_value_data(const evendb_value *value);

/* Their number. 0 for NULL. */
EVENDB_API size_t evendb_value_size(const evendb_value *value);

EVENDB_API void evendb_value_free(evendb_value *value);

/* ---- Summaries ----------------------------------------------------------------------------- */

/* What a long call did, as figures by name, to be freed. The function that gives it names the
 * figures; a later version may have more. Its place may be NULL, for no summary. */
typedef struct evendb_summary evendb_summary;

/* A figure by name. Errors: EVENDB_INVALID_ARGUMENT for a name that it does not have. */
EVENDB_API evendb_status evendb_summary_get(evendb_summary *summary, const char *name, uint64_t
    *value, evendb_error **error);

/* The figure with this number, from 0; the name is NULL behind the last one. Names are not freed.
 * */
EVENDB_API evendb_status evendb_summary_at(evendb_summary *summary, size_t index, const char **name,
    uint64_t *value, evendb_error **error);

EVENDB_API void evendb_summary_free(evendb_summary *summary);

/* ---- Options ------------------------------------------------------------------------------- */

/* What a database is opened with. One thread at a time. */
typedef struct evendb_options evendb_options;

/* The default options. */
EVENDB_API evendb_status evendb_options_create(evendb_options **options, evendb_error **error);

/* Sets an option by its name and a text: numbers in decimal, sizes in bytes or as "64MiB", times as
 * "500ms" or "30s", switches as "on" or "off" ("true" and "false" do, too), choices by their word.
 * docs/options.md lists all options; evendb_options_at gives the same list. Errors:
 * EVENDB_INVALID_ARGUMENT for an unknown name (the message has those that are near) and for a text
 * that the option does not take, or outside of its limits (the message has them); the options stay
 * as they were. Limits that depend on the system are checked by evendb_open. */
EVENDB_API evendb_status evendb_options_set(evendb_options *options, const char *name, const char
    *text, evendb_error **error);

/* The text of an option as it is set now, from which evendb_options_set sets it again. Errors:
 * EVENDB_INVALID_ARGUMENT for an unknown name. */
EVENDB_API evendb_status evendb_options_get(evendb_options *options, const char *name, evendb_value
    **text, evendb_error **error);

/* The option with this number, from 0; `name` is NULL behind the last one. `default_text` sets its
 * default; "auto" stands for what follows from other options or the machine. `takes` is what its
 * texts are, in a word: "size", "number", "fraction", "time", "switch", "choice", "two sizes" or
 * "two numbers". `limits` has its least and greatest value, or its words. `about` says in a
 * sentence what it is for. Each place may be NULL. The texts are not freed, and stay. A later
 * version may have more options, and in another order. */
EVENDB_API evendb_status evendb_options_at(size_t index, const char **name, const char
    **default_text, const char **takes, const char **limits, const char **about, evendb_error
    **error);

/* Databases that were opened with them are not affected. */
EVENDB_API void evendb_options_free(evendb_options *options);

/* A memory budget, and threads for background work, that several databases of a program share. Any
 * threads may use it at once. */
typedef struct evendb_shared evendb_shared;

/* A budget of `bytes` bytes, from 1 MiB to 16 TiB, for all its databases together. `databases` is
 * the number that are in use at the same time (0: 16); it is no limit, and decides sizes that do
 * not change while a database is open, as that of the largest batch. `threads` is the most threads
 * for background work (0: by the cores, at most 9), `open_files_max` the most tables that are open
 * as files of their own (0: half of what the process may open, at most 8,192). Errors:
 * EVENDB_INVALID_ARGUMENT for a number outside of its limits. */
EVENDB_API evendb_status evendb_shared_create(uint64_t bytes, uint64_t databases, uint64_t threads,
    uint64_t open_files_max, evendb_shared **shared, evendb_error **error);

/* Databases that are opened with these options have the shared budget; `memory_budget` then has no
 * effect. evendb_open is EVENDB_INVALID_ARGUMENT if the budget has no room for one more. */
EVENDB_API evendb_status evendb_options_set_shared(evendb_options *options, const evendb_shared
    *shared, evendb_error **error);

/* What its databases have now. Summary: budget, databases, parts, held, open_files, threads. Of
 * these budget, parts and held are bytes, and the others are numbers. All are 0 in a child of fork.
 * */
EVENDB_API evendb_status evendb_shared_figures(const evendb_shared *shared, evendb_summary
    **summary, evendb_error **error);

/* May be called before or after its databases are freed: they keep it. A database leaves the budget
 * with its last handle. */
EVENDB_API void evendb_shared_free(evendb_shared *shared);

/* ---- Databases ----------------------------------------------------------------------------- */

/* An open database. */
typedef struct evendb_db evendb_db;
/* An ordered map of keys and values in a database. */
typedef struct evendb_keyspace evendb_keyspace;

/* Opens the database in the directory `path`, or makes it. `options` may be NULL for the defaults.
 * The store's own threads take none of the program's signals.
 * Errors: EVENDB_LOCKED, EVENDB_NOT_FOUND, EVENDB_ALREADY_EXISTS, EVENDB_CORRUPTION,
 * EVENDB_UNSUPPORTED, EVENDB_INVALID_ARGUMENT, EVENDB_NO_SPACE, EVENDB_IO, EVENDB_FORKED. */
EVENDB_API evendb_status evendb_open(const char *path, evendb_options *options, evendb_db **db,
    evendb_error **error);

/* Opens a database for reading, also while another process writes to it: what the writer's last
 * checkpoint made durable, as one moment that does not change. It takes no lock and writes nothing;
 * the writer does not notice it. A read whose bytes the writer has replaced meanwhile is
 * EVENDB_STALE, and never wrong: evendb_refresh has what is there now.
 * Errors: EVENDB_STALE if the writer went on during each of a hundred attempts; those of
 * evendb_open without EVENDB_LOCKED. */
EVENDB_API evendb_status evendb_open_beside_writer(const char *path, evendb_options *options,
    evendb_db **db, evendb_error **error);

/* The same database at the writer's last checkpoint, as a further handle, which the caller frees.
 * If that is the moment that `db` shows, it is the same opening; otherwise it is a new one, with
 * caches of its own. `db` and what was made from it stay at their moment. Errors: those of
 * evendb_open_beside_writer; EVENDB_INVALID_ARGUMENT if `db` was opened otherwise. */
EVENDB_API evendb_status evendb_refresh(const evendb_db *db, evendb_db **newer, evendb_error
    **error);

/* Closes the database for all handles: waits for calls under way, writes a checkpoint, gives the
 * directory free. Handles stay, and answer EVENDB_CLOSED. Any thread may call it; a second call
 * gets the result of the first. A feed that waits is woken. Errors: the first failure of the
 * checkpoint; the database is closed all the same. */
EVENDB_API evendb_status evendb_close(const evendb_db *db, evendb_error **error);

/* Frees the handle. If it was the last one of the database, and the database is not closed, it is
 * closed now, and nobody hears of a failure. */
EVENDB_API void evendb_free(evendb_db *db);

/* Removes the closed database in the directory `path`, and nothing else that lies there.
 * A path where nothing is is no failure. Errors: EVENDB_LOCKED, EVENDB_IO, EVENDB_INVALID_ARGUMENT
 * for a backup, EVENDB_UNSUPPORTED for a directory that may be another store's. */
EVENDB_API evendb_status evendb_destroy(const char *path, evendb_error **error);

/* Makes all that was written before survive a loss of power.
 * Errors: EVENDB_IO, EVENDB_LATCHED, EVENDB_READ_ONLY, EVENDB_CLOSED. */
EVENDB_API evendb_status evendb_persist(const evendb_db *db, evendb_error **error);

/* Writes a checkpoint: the next opening has little to replay. For durability evendb_persist is
 * enough. Errors: those of evendb_persist, EVENDB_NO_SPACE. */
EVENDB_API evendb_status evendb_flush(const evendb_db *db, evendb_error **error);

/* Writes a checkpoint, does all reorganisation that is owed, and waits for it.
 * Errors: those of evendb_flush. */
EVENDB_API evendb_status evendb_settle_debt(const evendb_db *db, evendb_error **error);

/* Makes the database as small as it can be. Reads and writes go on meanwhile.
 * Summary: chunks, rewritten, bytes_before, bytes_after, elapsed_millis.
 * Errors: those of evendb_flush, EVENDB_CORRUPTION. */
EVENDB_API evendb_status evendb_compact(const evendb_db *db, evendb_summary **summary, evendb_error
    **error);

/* ---- Keyspaces ----------------------------------------------------------------------------- */

/* Options of a keyspace. One thread at a time. */
typedef struct evendb_keyspace_options evendb_keyspace_options;
/* Names, in order, to be freed. */
typedef struct evendb_names evendb_names;

/* Options that choose nothing. */
EVENDB_API evendb_status evendb_keyspace_options_create(evendb_keyspace_options **options,
    evendb_error **error);

/* Sets an option, as evendb_options_set; the text of its default ("auto", of some "none") takes a
 * choice back, so that the option follows the database. A ready merge operator is set by its name;
 * evendb_keyspace_options_merge_operator sets one of the program. */
EVENDB_API evendb_status evendb_keyspace_options_set(evendb_keyspace_options *options, const char
    *name, const char *text, evendb_error **error);

/* The text of an option as it is set now, as evendb_options_get. */
EVENDB_API evendb_status evendb_keyspace_options_get(evendb_keyspace_options *options, const char
    *name, evendb_value **text, evendb_error **error);

/* The options of keyspaces by number, as evendb_options_at. */
EVENDB_API evendb_status evendb_keyspace_options_at(size_t index, const char **name, const char
    **default_text, const char **takes, const char **limits, const char **about, evendb_error
    **error);

EVENDB_API void evendb_keyspace_options_free(evendb_keyspace_options *options);

/* The keyspace that always exists. The caller frees the handle. */
EVENDB_API evendb_status evendb_default_keyspace(const evendb_db *db, evendb_keyspace **keyspace,
    evendb_error **error);

/* Opens a keyspace by its name of 1 to 255 bytes, or makes it, durably. An option that `options`
 * chooses and an existing keyspace has otherwise is refused; NULL chooses none.
 * Errors: EVENDB_INVALID_ARGUMENT, EVENDB_READ_ONLY, and those of writes. */
EVENDB_API evendb_status evendb_keyspace_open(const evendb_db *db, const char *name,
    evendb_keyspace_options *options, evendb_keyspace **keyspace, evendb_error **error);

/* Whether there is a keyspace of this name: 1 or 0. */
EVENDB_API evendb_status evendb_keyspace_exists(const evendb_db *db, const char *name, int32_t
    *found, evendb_error **error);

/* Removes a keyspace and all it holds. Its handles answer EVENDB_KEYSPACE_DROPPED from then on;
 * snapshots that are older still read it. The default keyspace is refused. */
EVENDB_API evendb_status evendb_keyspace_drop(const evendb_db *db, const char *name, evendb_error
    **error);

/* Gives a keyspace another name, durably, at one moment. Handles go on, and keep the same records;
 * evendb_keyspace_name gives the new name. Errors: EVENDB_INVALID_ARGUMENT for the default
 * keyspace, for one that is not there, and for a name that cannot be; EVENDB_ALREADY_EXISTS; those
 * of writes. After EVENDB_IO and EVENDB_LATCHED the next opening tells which name it has, after
 * others it has the old one. */
EVENDB_API evendb_status evendb_rename_keyspace(const evendb_db *db, const char *from, const char
    *to, evendb_error **error);

/* Exchanges the names of two keyspaces, durably, at one moment: one that was built beside another
 * takes its place. Handles keep the same records. Errors: as evendb_rename_keyspace, without
 * EVENDB_ALREADY_EXISTS; both must be there. */
EVENDB_API evendb_status evendb_swap_keyspaces(const evendb_db *db, const char *one, const char
    *other, evendb_error **error);

EVENDB_API void evendb_keyspace_free(evendb_keyspace *keyspace);

/* The names of all keyspaces, sorted. */
EVENDB_API evendb_status evendb_keyspace_names(const evendb_db *db, evendb_names **names,
    evendb_error **error);
EVENDB_API size_t evendb_names_count(const evendb_names *names);
/* The name with this number, from 0; NULL behind the last one. Lives as long as the names. */
EVENDB_API const char *evendb_names_at(const evendb_names *names, size_t index);
EVENDB_API void evendb_names_free(evendb_names *names);

/* The name of a keyspace, which is not 0-terminated. */
EVENDB_API evendb_status evendb_keyspace_name(const evendb_keyspace *keyspace, evendb_value **name,
    evendb_error **error);

/* Its number, which stays over reopenings. Made again under its name, it gets another. */
EVENDB_API evendb_status evendb_keyspace_id(const evendb_keyspace *keyspace, uint32_t *id,
    evendb_error **error);

/* The text of an option that the keyspace has of its own; NULL if it follows the database. */
EVENDB_API evendb_status evendb_keyspace_option(const evendb_keyspace *keyspace, const char *name,
    evendb_value **text, evendb_error **error);

/* Sets all its options, durably. One that is not chosen follows the database from now on, except
 * layout and merge operator, which stay. NULL chooses none. */
EVENDB_API evendb_status evendb_keyspace_set_options(const evendb_keyspace *keyspace,
    evendb_keyspace_options *options, evendb_error **error);

/* A property: something small that a keyspace remembers beside its records. NULL if it is not set.
 * */
EVENDB_API evendb_status evendb_keyspace_property(const evendb_keyspace *keyspace, const char *name,
    evendb_value **property, evendb_error **error);

/* Sets a property, durably. Names have 1 to 255 bytes; all of a keyspace have 16 KiB together. */
EVENDB_API evendb_status evendb_keyspace_set_property(const evendb_keyspace *keyspace, const char
    *name, const void *property, size_t property_size, evendb_error **error);

EVENDB_API evendb_status evendb_keyspace_remove_property(const evendb_keyspace *keyspace, const char
    *name, evendb_error **error);

/* ---- Ranges of keys ------------------------------------------------------------------------ */

/* Keys are ordered by their bytes, as by memcmp, and a prefix before what it begins. A range is a
 * kind and two keys, of which the kind reads those that it names. The others must be empty, so that
 * a mistake does not become a range of everything. */
enum {
    /* All keys; both are empty. */
    EVENDB_RANGE_ALL = 0,
    /* From `low` to below `high`. Nothing if `high` is not above `low`. */
    EVENDB_RANGE_BETWEEN = 1,
    /* From `low` to the end; `high` is empty. */
    EVENDB_RANGE_FROM = 2,
    /* The keys that begin with `low`; `high` is empty. */
    EVENDB_RANGE_PREFIX = 3
};

/* ---- Reads --------------------------------------------------------------------------------- */

/* The value of a key; NULL if there is none.
 * Errors: EVENDB_IO, EVENDB_CORRUPTION, EVENDB_CLOSED, EVENDB_KEYSPACE_DROPPED,
 * EVENDB_MERGE_FAILED. */
EVENDB_API evendb_status evendb_get(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, evendb_value **value, evendb_error **error);

/* The `length` bytes of the value from `offset` on, less where the value ends before; NULL if the
 * key has no value, and the empty bytes if `offset` is not below its length. All of the value is
 * read and verified, and only the part is kept in memory. Errors: those of evendb_get. */
EVENDB_API evendb_status evendb_get_part(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, uint64_t offset, uint64_t length, evendb_value **value, evendb_error **error);

/* Copies the value of a key into `buffer`. `found` is 1 or 0, `size` the bytes of the value. If
 * they are more than `capacity`, nothing is copied, and the status is EVENDB_BUFFER_TOO_SMALL;
 * `found` and `size` are set then, too. */
EVENDB_API evendb_status evendb_get_into(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, void *buffer, size_t capacity, size_t *size, int32_t *found, evendb_error **error);

/* Whether a key has a value: 1 or 0. */
EVENDB_API evendb_status evendb_contains(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, int32_t *found, evendb_error **error);

/* The values of `count` keys, of one moment, into the array `values`: each one NULL, or to be
 * freed. After a failure all are NULL. */
EVENDB_API evendb_status evendb_multi_get(const evendb_keyspace *keyspace, size_t count, const void
    *const *keys, const size_t *key_sizes, evendb_value **values, evendb_error **error);

/* The values of keys of several keyspaces, one for each key, as evendb_multi_get. */
EVENDB_API evendb_status evendb_multi_get_across(const evendb_db *db, size_t count,
    const evendb_keyspace *const *keyspaces, const void *const *keys, const size_t *key_sizes,
    evendb_value **values, evendb_error **error);

/* About how many records and bytes a range holds, without reading them. Each place may be NULL. */
EVENDB_API evendb_status evendb_approximate_size(const evendb_keyspace *keyspace, int32_t range,
    const void *low, size_t low_size, const void *high, size_t high_size, uint64_t *records,
    uint64_t *bytes, evendb_error **error);

/* About how many records a range holds: the records of evendb_approximate_size, without its bytes.
 * */
EVENDB_API evendb_status evendb_approximate_len(const evendb_keyspace *keyspace, int32_t range,
    const void *low, size_t low_size, const void *high, size_t high_size, uint64_t *records,
    evendb_error **error);

/* ---- Writes -------------------------------------------------------------------------------- */

/* Sets the value of a key. It waits when reorganisation cannot keep up.
 * Errors: EVENDB_KEY_TOO_LARGE, EVENDB_VALUE_TOO_LARGE, EVENDB_NO_SPACE (nothing took effect),
 * EVENDB_LATCHED, EVENDB_READ_ONLY, EVENDB_CLOSED, EVENDB_KEYSPACE_DROPPED, EVENDB_IO. */
EVENDB_API evendb_status evendb_put(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, const void *value, size_t value_size, evendb_error **error);

/* Sets the value of a key for `ttl_millis` milliseconds from now on. */
EVENDB_API evendb_status evendb_put_with_ttl(const evendb_keyspace *keyspace, const void *key,
    size_t key_size, const void *value, size_t value_size, uint64_t ttl_millis, evendb_error
    **error);

/* Sets the value of a key until a time of day, in milliseconds since the beginning of 1970, UTC. */
EVENDB_API evendb_status evendb_put_expiring_at(const evendb_keyspace *keyspace, const void *key,
    size_t key_size, const void *value, size_t value_size, uint64_t at_unix_millis, evendb_error
    **error);

/* Merges an operand into the value of a key by the keyspace's merge operator, without reading it.
 * Errors: those of evendb_put; EVENDB_INVALID_ARGUMENT without an operator, or if the operator's
 * check refuses the operand. */
EVENDB_API evendb_status evendb_merge(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, const void *operand, size_t operand_size, evendb_error **error);

/* Removes a key, if it is there. */
EVENDB_API evendb_status evendb_delete(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, evendb_error **error);

/* Removes a key that was put exactly once since its last single delete: costs less than a delete.
 * For a key that was put otherwise, an older value may come back. */
EVENDB_API evendb_status evendb_single_delete(const evendb_keyspace *keyspace, const void *key,
    size_t key_size, evendb_error **error);

/* Removes all keys of a range at once, as one record, at the cost of a put. */
EVENDB_API evendb_status evendb_delete_range(const evendb_keyspace *keyspace, int32_t range, const
    void *low, size_t low_size, const void *high, size_t high_size, evendb_error **error);

/* Sets the value of a key to the new one if it has the expected one, with no write between. With
 * `has_expected` 0 the key must not be there; with `has_new` 0 it is removed; the bytes are then
 * empty. `swapped` is 1 or 0. If it is 0, `found`, unless it is NULL, gets the value that is there
 * (NULL: none). Errors: those of evendb_get and evendb_put, EVENDB_CONFLICT after 64 attempts. */
EVENDB_API evendb_status evendb_compare_and_swap(const evendb_keyspace *keyspace, const void *key,
    size_t key_size, int32_t has_expected, const void *expected_value, size_t expected_size, int32_t
    has_new, const void *new_value, size_t new_size, int32_t *swapped, evendb_value **found,
    evendb_error **error);

/* Removes the record with the least (or greatest) key of a range, and gives it: both NULL if there
 * is none. Of threads that pop at once, each gets another record. Each place may be NULL. A crash
 * in the call may leave the record removed and given to nobody. Errors: those of evendb_get and
 * evendb_put, EVENDB_CONFLICT, EVENDB_LOCK_TIMEOUT. */
EVENDB_API evendb_status evendb_pop_first(const evendb_keyspace *keyspace, int32_t range, const void
    *low, size_t low_size, const void *high, size_t high_size, evendb_value **key, evendb_value
    **value, evendb_error **error);
EVENDB_API evendb_status evendb_pop_last(const evendb_keyspace *keyspace, int32_t range, const void
    *low, size_t low_size, const void *high, size_t high_size, evendb_value **key, evendb_value
    **value, evendb_error **error);

/* ---- Cursors ------------------------------------------------------------------------------- */

/* The records of a range at one moment. One thread at a time. While it lives, what it can see is
 * kept, so free it soon.
 *
 * A cursor has two ends, and what remains lies between them. evendb_cursor_next takes from the
 * front, evendb_cursor_next_back from the back; each record is given once. A seek moves one end, to
 * anywhere in the range, and leaves the other where it is. To go backwards from a key, open a
 * cursor, seek its back there, and take from the back.
 *
 * After a failure a cursor of a keyspace or snapshot stays where it is and gives the same error at
 * each call. */
typedef struct evendb_cursor evendb_cursor;

enum {
    /* The cursor gives keys, and empty values, which it does not read. */
    EVENDB_KEYS_ONLY = 1
};

/* A cursor over a range of a keyspace, as it is now. `flags` is 0 or EVENDB_KEYS_ONLY. Errors of
 * reads come from the first call that moves it. */
EVENDB_API evendb_status evendb_cursor_open(const evendb_keyspace *keyspace, int32_t range, const
    void *low, size_t low_size, const void *high, size_t high_size, uint32_t flags, evendb_cursor
    **cursor, evendb_error **error);

EVENDB_API void evendb_cursor_free(evendb_cursor *cursor);

/* The cursor ends after `records` further records, of both ends together, and reads about as much
 * as they take. 0 ends it now. */
EVENDB_API evendb_status evendb_cursor_limit(evendb_cursor *cursor, uint64_t records, evendb_error
    **error);

/* The next record of the front: `key` is NULL if there is none. The bytes live until the next call
 * on this cursor. The places except `key` may be NULL. Errors: EVENDB_IO, EVENDB_CORRUPTION,
 * EVENDB_CLOSED, EVENDB_KEYSPACE_DROPPED, EVENDB_MERGE_FAILED. */
EVENDB_API evendb_status evendb_cursor_next(evendb_cursor *cursor, const void **key, size_t
    *key_size, const void **value, size_t *value_size, evendb_error **error);

/* The next record of the back, in descending order. */
EVENDB_API evendb_status evendb_cursor_next_back(evendb_cursor *cursor, const void **key, size_t
    *key_size, const void **value, size_t *value_size, evendb_error **error);

/* Moves the front: evendb_cursor_next gives the first record of the cursor's range at `key` or
 * above. Reads nothing. */
EVENDB_API evendb_status evendb_cursor_seek(evendb_cursor *cursor, const void *key, size_t key_size,
    evendb_error **error);

/* Moves the back: evendb_cursor_next_back gives the last record at `key` or below. */
EVENDB_API evendb_status evendb_cursor_seek_back(evendb_cursor *cursor, const void *key, size_t
    key_size, evendb_error **error);

/* Writes the next records of the front into `buffer`, one behind the other without gaps, each as
 *
 *   bytes 0 to 3   length of the key, unsigned, little-endian
 *   bytes 4 to 7   length of the value, unsigned, little-endian
 *   then           the key, and behind it the value
 * until the next one does not fit or there is no more. `used` is the number of bytes written,
 * `records` (may be NULL) the number of records; both are 0 at the end of the range. A record that
 * alone is larger than `capacity` is EVENDB_BUFFER_TOO_SMALL: `used` is then the bytes that it
 * takes, and it stays the next one. A failure of a read behind records that were written is told by
 * the next call. */
EVENDB_API evendb_status evendb_cursor_fill(evendb_cursor *cursor, void *buffer, size_t capacity,
    size_t *used, size_t *records, evendb_error **error);

/* The same from the back, in descending order. */
EVENDB_API evendb_status evendb_cursor_fill_back(evendb_cursor *cursor, void *buffer, size_t
    capacity, size_t *used, size_t *records, evendb_error **error);

/* ---- Batches ------------------------------------------------------------------------------- */

/* Writes to any keyspaces that take effect together, at the commit: nobody sees a part of them. Of
 * several writes to one key the last counts. One thread at a time. */
typedef struct evendb_batch evendb_batch;

enum {
    EVENDB_DURABILITY_RELAXED = 0,
    EVENDB_DURABILITY_PROCESS = 1,
    EVENDB_DURABILITY_SYNC = 2
};

EVENDB_API evendb_status evendb_batch_create(const evendb_db *db, evendb_batch **batch, evendb_error
    **error);

/* A batch that was not committed has written nothing. */
EVENDB_API void evendb_batch_free(evendb_batch *batch);

/* The writes, as the calls of the same names. Limits of keys and values, and whether the keyspace
 * is of the batch's database, are checked by the commit. */
EVENDB_API evendb_status evendb_batch_put(evendb_batch *batch, const evendb_keyspace *keyspace,
    const void *key, size_t key_size, const void *value, size_t value_size, evendb_error **error);
EVENDB_API evendb_status evendb_batch_put_with_ttl(evendb_batch *batch, const evendb_keyspace
    *keyspace, const void *key, size_t key_size, const void *value, size_t value_size, uint64_t
    ttl_millis, evendb_error **error);
EVENDB_API evendb_status evendb_batch_put_expiring_at(evendb_batch *batch, const evendb_keyspace
    *keyspace, const void *key, size_t key_size, const void *value, size_t value_size, uint64_t
    at_unix_millis, evendb_error **error);
EVENDB_API evendb_status evendb_batch_merge(evendb_batch *batch, const evendb_keyspace *keyspace,
    const void *key, size_t key_size, const void *operand, size_t operand_size, evendb_error
    **error);
EVENDB_API evendb_status evendb_batch_delete(evendb_batch *batch, const evendb_keyspace *keyspace,
    const void *key, size_t key_size, evendb_error **error);
EVENDB_API evendb_status evendb_batch_single_delete(evendb_batch *batch, const evendb_keyspace
    *keyspace, const void *key, size_t key_size, evendb_error **error);
EVENDB_API evendb_status evendb_batch_delete_range(evendb_batch *batch, const evendb_keyspace
    *keyspace, int32_t range, const void *low, size_t low_size, const void *high, size_t high_size,
    evendb_error **error);

/* Raises the durability of the commit above the database's; it is never lowered. */
EVENDB_API evendb_status evendb_batch_durability(evendb_batch *batch, int32_t durability,
    evendb_error **error);

/* The number of writes, and the bytes that they count towards the limit of a batch: key, value and
 * 64 for each. Each place may be NULL. */
EVENDB_API evendb_status evendb_batch_size(evendb_batch *batch, size_t *writes, uint64_t
    *counted_bytes, evendb_error **error);

/* Takes all writes out. The durability stays. */
EVENDB_API evendb_status evendb_batch_clear(evendb_batch *batch, evendb_error **error);

/* Writes everything or nothing. The batch is used up, whatever the outcome: EVENDB_USED_UP from
 * then on. Errors: those of evendb_put, EVENDB_BATCH_TOO_LARGE, EVENDB_INVALID_ARGUMENT. */
EVENDB_API evendb_status evendb_batch_commit(evendb_batch *batch, evendb_error **error);

/* ---- Snapshots ----------------------------------------------------------------------------- */

/* One moment of the whole database. While it lives, what it sees is kept, so free it soon. */
typedef struct evendb_snapshot evendb_snapshot;

EVENDB_API evendb_status evendb_snapshot_create(const evendb_db *db, evendb_snapshot **snapshot,
    evendb_error **error);
EVENDB_API void evendb_snapshot_free(evendb_snapshot *snapshot);

/* As the calls without `snapshot_`, at this moment. EVENDB_INVALID_ARGUMENT for a keyspace of
 * another database. */
EVENDB_API evendb_status evendb_snapshot_get(const evendb_snapshot *snapshot, const evendb_keyspace
    *keyspace, const void *key, size_t key_size, evendb_value **value, evendb_error **error);
EVENDB_API evendb_status evendb_snapshot_get_part(const evendb_snapshot *snapshot, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, uint64_t offset, uint64_t length,
    evendb_value **value, evendb_error **error);
EVENDB_API evendb_status evendb_snapshot_contains(const evendb_snapshot *snapshot, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, int32_t *found, evendb_error
    **error);
EVENDB_API evendb_status evendb_snapshot_multi_get(const evendb_snapshot *snapshot, const
    evendb_keyspace *keyspace, size_t count, const void *const *keys, const size_t *key_sizes,
    evendb_value **values, evendb_error **error);
EVENDB_API evendb_status evendb_snapshot_cursor(const evendb_snapshot *snapshot, const
    evendb_keyspace *keyspace, int32_t range, const void *low, size_t low_size, const void *high,
    size_t high_size, uint32_t flags, evendb_cursor **cursor, evendb_error **error);

/* ---- Transactions -------------------------------------------------------------------------- */

/* Reads and writes that take effect together, as if nothing else had happened between the first
 * read and the commit. It reads one moment, and its own writes over that; nobody else sees these
 * before the commit. One thread at a time. */
typedef struct evendb_transaction evendb_transaction;

EVENDB_API evendb_status evendb_transaction_begin(const evendb_db *db, evendb_transaction
    **transaction, evendb_error **error);

/* A transaction that was not committed has written nothing. */
EVENDB_API void evendb_transaction_free(evendb_transaction *transaction);

EVENDB_API evendb_status evendb_transaction_get(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, evendb_value **value, evendb_error
    **error);

/* The newest value of a key, which is locked for others that ask in this way until the transaction
 * ends. Errors: EVENDB_LOCK_TIMEOUT, EVENDB_DEADLOCK, EVENDB_CONFLICT, and those of evendb_get. */
EVENDB_API evendb_status evendb_transaction_get_for_update(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, evendb_value **value, evendb_error
    **error);
EVENDB_API evendb_status evendb_transaction_contains(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, int32_t *found, evendb_error
    **error);
EVENDB_API evendb_status evendb_transaction_multi_get(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, size_t count, const void *const *keys, const size_t *key_sizes,
    evendb_value **values, evendb_error **error);

/* A cursor over what the transaction sees when the cursor moves: its moment and its own writes,
 * also those that come while the cursor lives. Records that it passes over count as read, and up to
 * 256 behind them. While another call uses the transaction, it answers EVENDB_BUSY; once the
 * transaction has ended, EVENDB_USED_UP. */
EVENDB_API evendb_status evendb_transaction_cursor(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, int32_t range, const void *low, size_t low_size, const void *high,
    size_t high_size, uint32_t flags, evendb_cursor **cursor, evendb_error **error);

/* For how long evendb_transaction_get_for_update waits for a key: a second, if this is not called.
 * */
EVENDB_API evendb_status evendb_transaction_lock_timeout(evendb_transaction *transaction, uint64_t
    timeout_millis, evendb_error **error);

/* The writes, as the calls of the same names. */
EVENDB_API evendb_status evendb_transaction_put(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, const void *value, size_t
    value_size, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_put_with_ttl(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, const void *value, size_t
    value_size, uint64_t ttl_millis, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_put_expiring_at(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, const void *value, size_t
    value_size, uint64_t at_unix_millis, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_merge(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, const void *operand, size_t
    operand_size, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_delete(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_single_delete(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, const void *key, size_t key_size, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_delete_range(evendb_transaction *transaction, const
    evendb_keyspace *keyspace, int32_t range, const void *low, size_t low_size, const void *high,
    size_t high_size, evendb_error **error);

/* A state to go back to, as a number that is not 0. */
EVENDB_API evendb_status evendb_transaction_savepoint(evendb_transaction *transaction, uint64_t
    *savepoint, evendb_error **error);

/* Takes back the writes since the savepoint, which stays usable. Reads still count, locks stay.
 * Errors: EVENDB_INVALID_ARGUMENT for a savepoint that is not there, or not any more. */
EVENDB_API evendb_status evendb_transaction_rollback_to(evendb_transaction *transaction, uint64_t
    savepoint, evendb_error **error);

/* Keys written so far, and ranges removed. */
EVENDB_API evendb_status evendb_transaction_size(evendb_transaction *transaction, size_t *writes,
    evendb_error **error);

EVENDB_API evendb_status evendb_transaction_durability(evendb_transaction *transaction, int32_t
    durability, evendb_error **error);

/* Writes everything if nothing that was read has changed; otherwise EVENDB_CONFLICT, and nothing
 * was written. The transaction is used up, whatever the outcome. */
EVENDB_API evendb_status evendb_transaction_commit(evendb_transaction *transaction, evendb_error
    **error);

/* Ends the transaction without writing anything; it is used up. */
EVENDB_API evendb_status evendb_transaction_rollback(evendb_transaction *transaction, evendb_error
    **error);

/* ---- Calls with callbacks ------------------------------------------------------------------ */

/* A call that does not hold its caller up: it returns, and a callback is told the outcome.
 *
 * EXACTLY ONCE. If the call returns EVENDB_OK, its callback is called once: with the outcome, or
 * with EVENDB_CANCELLED if the call was called off, or with EVENDB_CLOSED or another failure.
 * `context` is not used any more after that, and belongs to the store until then: free it in the
 * callback. If the call returns anything else, it has not begun, and its callback is never called.
 * In a child of fork no callback comes for calls of the parent.
 *
 * WHERE. The callback may come before the call returns, in the calling thread: it does if memory
 * has the answer, which is usual. So hold no lock in the call that the callback takes, and do not
 * begin the next call of a long chain in it, or the stack grows. Otherwise it comes in a thread of
 * the store, or in the one that calls evendb_task_free or evendb_close. While it runs, that thread
 * of the store serves nobody else: be brief. It may call functions of this header, also
 * evendb_task_free for its own task, except evendb_close, which is EVENDB_INVALID_ARGUMENT in
 * threads of the store.
 *
 * A call keeps its database open until its callback was called, as a handle does. */
typedef struct evendb_task evendb_task;

/* The outcome of a call, for the callback: EVENDB_OK with the value that a get has found (NULL if
 * there is none, and for calls without one), or why it failed. The callback frees `value` and
 * `error`; either may be NULL. */
typedef void (*evendb_done)(void *context, evendb_status status, evendb_value *value, evendb_error
    *error);

/* The value of a key that it had at some moment between this call and the callback. `task`, unless
 * it is NULL, gets a handle to be freed, which is written before the callback can come.
 * Errors (of this call): EVENDB_INVALID_ARGUMENT, EVENDB_FORKED. To the callback: those of
 * evendb_get, EVENDB_CANCELLED. */
EVENDB_API evendb_status evendb_get_async(const evendb_keyspace *keyspace, const void *key, size_t
    key_size, evendb_done done, void *context, evendb_task **task, evendb_error **error);

/* Commits: writes are made in the call, or after it if they have to wait for room, in the order of
 * the calls; the callback comes when they have their durability. The batch (transaction) is used up
 * if the call has begun. Errors (of this call): EVENDB_INVALID_ARGUMENT, EVENDB_FORKED,
 * EVENDB_USED_UP, EVENDB_BUSY. To the callback: those of evendb_batch_commit
 * (evendb_transaction_commit). */
EVENDB_API evendb_status evendb_batch_commit_async(evendb_batch *batch, evendb_done done, void
    *context, evendb_task **task, evendb_error **error);
EVENDB_API evendb_status evendb_transaction_commit_async(evendb_transaction *transaction,
    evendb_done done, void *context, evendb_task **task, evendb_error **error);

/* Makes all that was written before the call survive a loss of power, as evendb_persist. */
EVENDB_API evendb_status evendb_persist_async(const evendb_db *db, evendb_done done, void *context,
    evendb_task **task, evendb_error **error);

/* Frees the handle, at any time, also in its own callback. A read that is under way is called off:
 * its callback comes with EVENDB_CANCELLED, as a rule before this call returns, in this thread; if
 * a thread of the store is just looking at the read, a moment later in that thread, with this
 * status or with the outcome. A callback that has come, or that runs in another thread now, does
 * not come again, and this call does not wait for it. A commit or evendb_persist_async is not
 * called off: the call goes on, and its callback comes with the outcome. */
EVENDB_API void evendb_task_free(evendb_task *task);

/* ---- Merge operators and compaction filters ------------------------------------------------ */

/* Makes a value from operands. Any threads may use the handle at once. */
typedef struct evendb_merge_operator evendb_merge_operator;
/* What a callback of a merge makes; lives for the time of the callback. */
typedef struct evendb_merge_result evendb_merge_result;

/* The value of `key` after `count` operands, oldest first, over `existing` (NULL: none). Hands the
 * value over by evendb_merge_result_set and returns 0; without that the key has no value then.
 * Returns another number if it cannot merge: reads of the key are then EVENDB_MERGE_FAILED, and
 * nothing is lost. It must give the same result for the same arguments. Any thread calls it,
 * several at once. */
typedef int32_t (*evendb_merge_full)(void *context, const void *key, size_t key_size, const void
    *existing, size_t existing_size, const void *const *operands, const size_t *operand_sizes,
    size_t count, evendb_merge_result *result);

/* One operand that stands for `count` operands, oldest first, over any value below them. Returns
 * without a result if they have to be kept apart. */
typedef int32_t (*evendb_merge_partial)(void *context, const void *key, size_t key_size, const void
    *const *operands, const size_t *operand_sizes, size_t count, evendb_merge_result *result);

/* Whether evendb_merge_full could read an operand (`is_operand` 1) or a value that is put (0): 0
 * for yes. The write is refused otherwise. */
typedef int32_t (*evendb_merge_check)(void *context, const void *key, size_t key_size, const void
    *bytes, size_t size, int32_t is_operand);

/* Frees a context. It is called once, by any thread. */
typedef void (*evendb_context_destroy)(void *context);

/* An operator of the program. `name` has 1 to 255 bytes; the keyspace remembers it, and it does not
 * begin with "evendb.". `partial`, `check` and `destroy` may be NULL. `destroy` is called when the
 * last owner is gone: this handle, options that have it, keyspaces that were opened with it while
 * their database is open. If this call fails, it is not called. */
EVENDB_API evendb_status evendb_merge_operator_create(const char *name, void *context,
    evendb_merge_full full, evendb_merge_partial partial, evendb_merge_check check,
    evendb_context_destroy destroy, evendb_merge_operator **merge_operator, evendb_error **error);

/* A ready operator: "evendb.add-u64", "evendb.add-i64" (numbers of 8 bytes, little-endian),
 * "evendb.max", "evendb.min", "evendb.append", "evendb.union". */
EVENDB_API evendb_status evendb_merge_operator_ready(const char *name, evendb_merge_operator
    **merge_operator, evendb_error **error);

/* May be called before or after the options and the database are freed. */
EVENDB_API void evendb_merge_operator_free(evendb_merge_operator *merge_operator);

/* Gives a keyspace that is opened with these options the operator. */
EVENDB_API evendb_status evendb_keyspace_options_merge_operator(evendb_keyspace_options *options,
    const evendb_merge_operator *merge_operator, evendb_error **error);

/* For callbacks: hands a value over. It is copied at once, so it may lie in an operand, on the
 * stack, or in memory that the callback frees afterwards; nobody else frees it. A second call
 * replaces the first. Returns EVENDB_OK or EVENDB_INVALID_ARGUMENT. */
EVENDB_API evendb_status evendb_merge_result_set(evendb_merge_result *result, const void *value,
    size_t value_size);

/* For callbacks that return another number than 0: says why, for the message of the error. */
EVENDB_API void evendb_merge_result_fail(evendb_merge_result *result, const char *message);

/* What a callback of a filter decides; lives for the time of the callback. */
typedef struct evendb_filter_result evendb_filter_result;

enum {
    EVENDB_FILTER_KEEP = 0,
    EVENDB_FILTER_DROP = 1,
    /* The record gets the value that evendb_filter_result_set hands over. */
    EVENDB_FILTER_REPLACE = 2
};

/* Decides about a record that is rewritten. Threads of the store call it, several at once, for one
 * record any number of times or never. */
typedef int32_t (*evendb_filter)(void *context, const void *key, size_t key_size, const void *value,
    size_t value_size, evendb_filter_result *result);

/* For callbacks: hands a value over, as evendb_merge_result_set. */
EVENDB_API evendb_status evendb_filter_result_set(evendb_filter_result *result, const void *value,
    size_t value_size);

/* Sets the filter of a keyspace until the database is closed; NULL takes it away. `destroy` (may be
 * NULL) is called once, when nobody uses the filter any more, also if this call fails. Without a
 * filter it is not called. */
EVENDB_API evendb_status evendb_keyspace_set_compaction_filter(const evendb_keyspace *keyspace,
    evendb_filter filter, void *context, evendb_context_destroy destroy, evendb_error **error);

/* Makes a range of a keyspace as small as it can be. Summary: as of evendb_compact. */
EVENDB_API evendb_status evendb_keyspace_compact(const evendb_keyspace *keyspace, int32_t range,
    const void *low, size_t low_size, const void *high, size_t high_size, evendb_summary **summary,
    evendb_error **error);

/* ---- Change feed --------------------------------------------------------------------------- */

/* A position between changes. Any threads may use it at once. */
typedef struct evendb_position evendb_position;
/* A feed of changes from a position on. One thread at a time. It holds up no write. */
typedef struct evendb_changes evendb_changes;
/* All writes of one put, delete, batch or transaction, to be freed. Any threads may read it. */
typedef struct evendb_change evendb_change;

enum {
    EVENDB_CHANGE_PUT = 1,
    EVENDB_CHANGE_DELETE = 2,
    EVENDB_CHANGE_MERGE = 3,
    EVENDB_CHANGE_DELETE_RANGE = 4
};

/* The end of all changes now. Errors: EVENDB_UNSUPPORTED at durability `relaxed`. */
EVENDB_API evendb_status evendb_position_now(const evendb_db *db, evendb_position **position,
    evendb_error **error);

/* The oldest position from which all changes are kept. Reads the commit log. */
EVENDB_API evendb_status evendb_position_oldest(const evendb_db *db, evendb_position **position,
    evendb_error **error);

/* The position of a snapshot: a change lies behind it if and only if the snapshot does not see it.
 * */
EVENDB_API evendb_status evendb_snapshot_position(const evendb_snapshot *snapshot, evendb_position
    **position, evendb_error **error);

/* A position as 13 to 69 bytes, to be stored, and back. EVENDB_INVALID_ARGUMENT for other bytes. */
EVENDB_API evendb_status evendb_position_to_bytes(const evendb_position *position, evendb_value
    **bytes, evendb_error **error);
EVENDB_API evendb_status evendb_position_from_bytes(const void *bytes, size_t size, evendb_position
    **position, evendb_error **error);
EVENDB_API void evendb_position_free(evendb_position *position);

/* A feed of the changes behind a position. Errors: EVENDB_CHANGES_GONE, EVENDB_CHANGES_LOST,
 * EVENDB_UNSUPPORTED, EVENDB_CLOSED, EVENDB_IO. */
EVENDB_API evendb_status evendb_changes_open(const evendb_db *db, const evendb_position *position,
    evendb_changes **changes, evendb_error **error);

/* The next change; waits for it up to `timeout_millis`, 0 not at all, UINT64_MAX without a limit.
 * NULL if there was none. At durability `sync` a change comes when it is durable. evendb_close ends
 * a wait with EVENDB_CLOSED. A feed that falls behind too far is EVENDB_CHANGES_GONE. */
EVENDB_API evendb_status evendb_changes_next(evendb_changes *changes, uint64_t timeout_millis,
    evendb_change **change, evendb_error **error);

/* The position behind the last change that was given. */
EVENDB_API evendb_status evendb_changes_position(evendb_changes *changes, evendb_position
    **position, evendb_error **error);
EVENDB_API void evendb_changes_free(evendb_changes *changes);

/* The bytes of the commit log that lie before the feed: how far it is behind. A feed that is as far
 * behind as the log is long loses its changes (EVENDB_CHANGES_GONE). */
EVENDB_API evendb_status evendb_changes_lag(evendb_changes *changes, uint64_t *bytes, evendb_error
    **error);

/* A watch: the feed of those writes that touch a range of one keyspace, from now on, or behind
 * `since` unless that is NULL. It is a feed as any other: evendb_changes_next waits for a change
 * and gives it, evendb_changes_position, evendb_changes_lag and evendb_changes_free do the same. A
 * change has those of its writes that touch the range; a removed range is cut to it. What a watch
 * passes over counts as seen, so store its position also while nothing comes. A position does not
 * name the keyspace: store evendb_keyspace_id with it. When the keyspace is dropped, the watch ends
 * with EVENDB_KEYSPACE_DROPPED. A value that expires is no change.
 * Errors: EVENDB_KEYSPACE_DROPPED, and those of evendb_changes_open. */
EVENDB_API evendb_status evendb_watch_range(const evendb_keyspace *keyspace, int32_t range, const
    void *low, size_t low_size, const void *high, size_t high_size, const evendb_position *since,
    evendb_changes **changes, evendb_error **error);

/* The watch of the keys that begin with `prefix`. */
EVENDB_API evendb_status evendb_watch_prefix(const evendb_keyspace *keyspace, const void *prefix,
    size_t prefix_size, const evendb_position *since, evendb_changes **changes, evendb_error
    **error);

/* The number of writes: at least one. Removed ranges come first, then keys, each group by keyspace
 * and key; applied in this order they give the database's state. */
EVENDB_API size_t evendb_change_count(const evendb_change *change);

/* The position behind this change: who has applied it stores that, and goes on from there. */
EVENDB_API evendb_status evendb_change_position(const evendb_change *change, evendb_position
    **position, evendb_error **error);

/* EVENDB_DURABILITY_SYNC if it was known to survive a loss of power, else
 * EVENDB_DURABILITY_PROCESS. */
EVENDB_API int32_t evendb_change_durability(const evendb_change *change);

/* The keyspace of a write, by its number from 0. The name lives as long as the change. */
EVENDB_API evendb_status evendb_change_keyspace(const evendb_change *change, size_t index, const
    char **name, uint32_t *id, evendb_error **error);

/* A write by its number. `key` is the key, of a removed range the least one. `value` is the value
 * that was put; of a removed range the first key behind it, NULL for the end of the keyspace; NULL
 * otherwise. `expires_unix_millis` is 0 for a value that stays. The bytes live as long as the
 * change. Each place may be NULL. */
EVENDB_API evendb_status evendb_change_write(const evendb_change *change, size_t index, int32_t
    *kind, const void **key, size_t *key_size, const void **value, size_t *value_size, uint64_t
    *expires_unix_millis, evendb_error **error);

/* An operand of a merge by its number from 0, oldest first; NULL behind the last one. */
EVENDB_API evendb_status evendb_change_operand(const evendb_change *change, size_t index, size_t
    operand, const void **data, size_t *size, evendb_error **error);
EVENDB_API void evendb_change_free(evendb_change *change);

/* ---- Ingest, export, import ---------------------------------------------------------------- */

/* A bulk load of records in ascending order of their keys. One thread at a time. Nothing is visible
 * before the finish, and then everything; it survives a loss of power. */
typedef struct evendb_ingest evendb_ingest;

EVENDB_API evendb_status evendb_ingest_begin(const evendb_keyspace *keyspace, evendb_ingest
    **ingest, evendb_error **error);

/* The next record; its key is greater than all before (EVENDB_UNSORTED otherwise). After a failure
 * nothing is left of the ingest. */
EVENDB_API evendb_status evendb_ingest_put(evendb_ingest *ingest, const void *key, size_t key_size,
    const void *value, size_t value_size, evendb_error **error);
EVENDB_API evendb_status evendb_ingest_put_expiring_at(evendb_ingest *ingest, const void *key,
    size_t key_size, const void *value, size_t value_size, uint64_t at_unix_millis, evendb_error
    **error);

/* Makes all of it visible; the ingest is used up.
 * Summary: records, data_bytes, tables, table_bytes, tables_overlapping. */
EVENDB_API evendb_status evendb_ingest_finish(evendb_ingest *ingest, evendb_summary **summary,
    evendb_error **error);

/* An ingest that was not finished leaves nothing. */
EVENDB_API void evendb_ingest_free(evendb_ingest *ingest);

/* Writes the records and properties of a keyspace into sorted files in a directory, which is empty
 * or missing. Summary: records, data_bytes, tables, table_bytes. */
EVENDB_API evendb_status evendb_export(const evendb_keyspace *keyspace, const char *directory,
    evendb_summary **summary, evendb_error **error);

/* Ingests what an export has written. Summary: as of evendb_ingest_finish. */
EVENDB_API evendb_status evendb_import(const evendb_keyspace *keyspace, const char *directory,
    evendb_summary **summary, evendb_error **error);

/* A property of the keyspace that was exported; NULL if it had none of this name. */
EVENDB_API evendb_status evendb_export_property(const char *directory, const char *name,
    evendb_value **property, evendb_error **error);

/* An export without a database: records in ascending order, given one by one. One thread at a time.
 * */
typedef struct evendb_export_writer evendb_export_writer;

EVENDB_API evendb_status evendb_export_writer_create(const char *directory, evendb_export_writer
    **writer, evendb_error **error);
EVENDB_API evendb_status evendb_export_writer_put(evendb_export_writer *writer, const void *key,
    size_t key_size, const void *value, size_t value_size, evendb_error **error);

/* Makes the export whole; the writer is used up. */
EVENDB_API evendb_status evendb_export_writer_finish(evendb_export_writer *writer, evendb_summary
    **summary, evendb_error **error);
EVENDB_API void evendb_export_writer_free(evendb_export_writer *writer);

/* ---- Copies and backups -------------------------------------------------------------------- */

enum {
    /* New files are verified as they are copied. */
    EVENDB_CHECK_NEW = 0,
    EVENDB_CHECK_NOTHING = 1,
    /* Files that a backup shares with the one before are compared, too. */
    EVENDB_CHECK_ALL = 2
};

/* Copies the open database, as it is now, into a directory that is empty or missing; tables are
 * linked where that can be. `verify_rate` is the most bytes per second that are read to verify: 0
 * for the default, UINT64_MAX for no limit. Summary: tables_linked, bytes_linked, tables_copied,
 * runs_copied, bytes_copied, bytes_verified, elapsed_millis. */
EVENDB_API evendb_status evendb_copy_to(const evendb_db *db, const char *directory, int32_t check,
    uint64_t verify_rate, evendb_summary **summary, evendb_error **error);

/* Makes a fork: a database in a directory that is empty or missing, which opens and is written as
 * any other, and shares its files with this one by hard links, in a time that does not depend on
 * the size of the data. It is one moment of this database, and survives a loss of power on return.
 * Both are independent afterwards. With `copy_if_needed` 0 a file that cannot be linked is
 * EVENDB_CANNOT_LINK; otherwise it is copied. Summary: files_linked, bytes_linked, tables_copied,
 * bytes_copied, elapsed_millis. Errors: EVENDB_CANNOT_LINK, EVENDB_ALREADY_EXISTS,
 * EVENDB_INVALID_ARGUMENT for a directory inside a database or beside backups, EVENDB_NO_SPACE,
 * EVENDB_IO, and those of evendb_flush; nothing is left of the fork then. */
EVENDB_API evendb_status evendb_fork(const evendb_db *db, const char *directory, int32_t
    copy_if_needed, evendb_summary **summary, evendb_error **error);

/* Adds a backup to a directory of backups, which share files. Summary: number, bytes, bytes_shared,
 * bytes_verified, elapsed_millis. */
EVENDB_API evendb_status evendb_backup(const evendb_db *db, const char *directory, int32_t check,
    uint64_t verify_rate, evendb_summary **summary, evendb_error **error);

/* The backups of a directory, oldest first, to be freed. */
typedef struct evendb_backup_list evendb_backup_list;

EVENDB_API evendb_status evendb_backup_list_read(const char *directory, evendb_backup_list **list,
    evendb_error **error);
EVENDB_API size_t evendb_backup_list_count(const evendb_backup_list *list);

/* A backup by its place in the list. Summary: number, unix_seconds, files, bytes, bytes_shared,
 * verified, damaged. `damage` says what is wrong with its list, NULL if nothing; it lives as long
 * as the list. */
EVENDB_API evendb_status evendb_backup_list_at(const evendb_backup_list *list, size_t index,
    evendb_summary **summary, const char **damage, evendb_error **error);
EVENDB_API void evendb_backup_list_free(evendb_backup_list *list);

/* Reads all of a backup and verifies it; `number` 0 is the newest. `verified` (may be NULL) gets
 * its number. Errors: EVENDB_CORRUPTION with the file, EVENDB_NOT_FOUND, EVENDB_LOCKED, EVENDB_IO.
 * */
EVENDB_API evendb_status evendb_backup_verify(const char *directory, uint64_t number, uint64_t
    *verified, evendb_error **error);

/* Makes a database of a backup in the directory `into`, which is empty or missing. */
EVENDB_API evendb_status evendb_backup_restore(const char *directory, uint64_t number, const char
    *into, uint64_t *restored, evendb_error **error);

/* Removes all backups except the `keep` newest; `keep` is 1 or more. */
EVENDB_API evendb_status evendb_backup_prune(const char *directory, size_t keep, uint64_t *removed,
    evendb_error **error);

/* ---- Statistics ---------------------------------------------------------------------------- */

/* All figures of a database at one moment, to be freed. Any threads may read it at once. */
typedef struct evendb_stats evendb_stats;

enum {
    /* A counter grows from the opening on, a gauge is a state. */
    EVENDB_FIGURE_COUNTER = 0,
    EVENDB_FIGURE_GAUGE = 1,
    EVENDB_UNIT_COUNT = 0,
    EVENDB_UNIT_BYTES = 1,
    EVENDB_UNIT_NANOSECONDS = 2
};

EVENDB_API evendb_status evendb_stats_take(const evendb_db *db, evendb_stats **stats, evendb_error
    **error);

/* A figure by its name, as "gets.munk" or "puts"; docs/metrics.md lists them.
 * Errors: EVENDB_INVALID_ARGUMENT for an unknown name. */
EVENDB_API evendb_status evendb_stats_get(const evendb_stats *stats, const char *name, uint64_t
    *value, evendb_error **error);
EVENDB_API size_t evendb_stats_count(const evendb_stats *stats);

/* A figure by its number, from 0; `name` is NULL behind the last one. Texts live as long as the
 * statistics. Each place may be NULL. */
EVENDB_API evendb_status evendb_stats_at(const evendb_stats *stats, size_t index, const char **name,
    uint64_t *value, int32_t *kind, int32_t *unit, const char **description, evendb_error **error);

/* All of it for people, in several lines. Lives as long as the statistics. */
EVENDB_API const char *evendb_stats_text(const evendb_stats *stats);
EVENDB_API void evendb_stats_free(evendb_stats *stats);

/* ---- Traces -------------------------------------------------------------------------------- */

/* A recording of what is called on a database. */
typedef struct evendb_trace evendb_trace;

enum {
    /* Writes are recorded with their values. */
    EVENDB_TRACE_VALUES = 1,
    /* Reads are recorded with a hash of what they found. */
    EVENDB_TRACE_VALUE_HASHES = 2,
    /* The trace of an encrypted database is wanted, although it has the keys in plain. */
    EVENDB_TRACE_OF_ENCRYPTED = 4
};

/* Begins a trace in a file that does not exist. `one_key_in` records one key in that many (0: all),
 * `bytes_max` is the largest size of the file (0: 4 GiB).
 * Errors: EVENDB_ALREADY_EXISTS, EVENDB_INVALID_ARGUMENT while another trace is recorded. */
EVENDB_API evendb_status evendb_trace_start(const evendb_db *db, const char *path, uint64_t
    one_key_in, uint64_t bytes_max, uint32_t flags, evendb_trace **trace, evendb_error **error);

/* Ends a trace; it is used up. Summary: recorded, dropped_full, dropped_behind, file_bytes,
 * elapsed_millis. */
EVENDB_API evendb_status evendb_trace_stop(evendb_trace *trace, evendb_summary **summary,
    evendb_error **error);

/* A trace that was not stopped ends, and reports nothing. */
EVENDB_API void evendb_trace_free(evendb_trace *trace);

#ifdef __cplusplus
}
#endif

#endif
