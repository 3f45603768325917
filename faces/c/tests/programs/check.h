/* What the programs of the tests share: checks that end the program, and a database to work with. */
#ifndef CHECK_H
#define CHECK_H

#include <evendb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

static __thread evendb_error *error_;

/* The call gives this status; its error, which the macro frees, says the same. */
#define IS(call, wanted)                                                                   \
    do {                                                                                   \
        evendb_status status_ = (call);                                                    \
        if (status_ != (wanted)) {                                                         \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__,                         \
                    evendb_status_name(status_), evendb_error_message(error_));            \
            exit(1);                                                                       \
        }                                                                                  \
        CHECK((error_ == NULL) == (status_ == EVENDB_OK));                                 \
        CHECK(evendb_error_code(error_) == status_);                                       \
        evendb_error_free(error_);                                                         \
        error_ = NULL;                                                                     \
    } while (0)

#define OK(call) IS(call, EVENDB_OK)
/* The place for the error, which IS looks at. */
#define E (&error_)
/* A text as bytes. */
#define T(text) text, strlen(text)
#define EVERYTHING EVENDB_RANGE_ALL, NULL, 0, NULL, 0

static const char *layout_ = "chunks";

/* The path of `name` in the test's directory, in memory that stays for some calls. */
static inline char *below(const char *directory, const char *name) {
    static char paths[16][500];
    static int used;
    char *path = paths[used++ % 16];
    CHECK(strlen(directory) + strlen(name) + 2 <= sizeof paths[0]);
    sprintf(path, "%s/%s", directory, name);
    return path;
}

static inline evendb_db *opened(const char *path) {
    evendb_options *options;
    evendb_db *db;
    OK(evendb_options_create(&options, E));
    OK(evendb_options_set(options, "layout", layout_, E));
    OK(evendb_options_set(options, "memory_budget", "16MiB", E));
    OK(evendb_open(path, options, &db, E));
    evendb_options_free(options);
    CHECK(db != NULL);
    return db;
}

static inline evendb_keyspace *default_of(const evendb_db *db) {
    evendb_keyspace *keyspace;
    OK(evendb_default_keyspace(db, &keyspace, E));
    return keyspace;
}

static inline void put(const evendb_keyspace *keyspace, const char *key, const char *value) {
    OK(evendb_put(keyspace, T(key), T(value), E));
}

/* Whether bytes are this text. */
static inline int same(const void *data, size_t size, const char *text) {
    return data != NULL && size == strlen(text) && memcmp(data, text, size) == 0;
}

/* Whether a value is this text, or with NULL whether there is none; frees it. */
static inline int value_is(evendb_value *value, const char *text) {
    int is = text == NULL ? value == NULL
                          : value != NULL && same(evendb_value_data(value), evendb_value_size(value), text);
    evendb_value_free(value);
    return is;
}

static inline int holds(const evendb_keyspace *keyspace, const char *key, const char *text) {
    evendb_value *value;
    OK(evendb_get(keyspace, T(key), &value, E));
    return value_is(value, text);
}

static inline uint64_t figure(evendb_summary *summary, const char *name) {
    uint64_t value;
    OK(evendb_summary_get(summary, name, &value, E));
    return value;
}

/* The directory for the program, and the layout. */
static inline const char *began(int count, char **arguments) {
    CHECK(count == 3);
    layout_ = arguments[2];
    return arguments[1];
}

static inline int ended(void) {
    puts("all of it");
    return 0;
}

#endif
