/* Cursors from both ends, seeks, limits, keys alone, and filled buffers. */
#include "check.h"

static const void *key, *value;
static size_t key_size, value_size;

static int next_is(evendb_cursor *cursor, const char *text) {
    OK(evendb_cursor_next(cursor, &key, &key_size, &value, &value_size, E));
    return text == NULL ? key == NULL : same(key, key_size, text);
}

static int back_is(evendb_cursor *cursor, const char *text) {
    OK(evendb_cursor_next_back(cursor, &key, &key_size, &value, &value_size, E));
    return text == NULL ? key == NULL : same(key, key_size, text);
}

static uint32_t number_at(const unsigned char *at) {
    return at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

/* Reads a filled buffer, whose keys are numbers that go up or down by one, and values their double. */
static int expect(const unsigned char *buffer, size_t used, size_t records, int first, int step) {
    size_t at = 0;
    char text[16];
    for (size_t record = 0; record < records; record++) {
        uint32_t of_key = number_at(buffer + at), of_value = number_at(buffer + at + 4);
        sprintf(text, "%05d", first);
        CHECK(same(buffer + at + 8, of_key, text));
        sprintf(text, "%d", 2 * first);
        CHECK(same(buffer + at + 8 + of_key, of_value, text));
        at += 8 + of_key + of_value;
        first += step;
    }
    CHECK(at == used);
    return first;
}

int main(int count, char **arguments) {
    const char *directory = began(count, arguments);
    evendb_db *db = opened(below(directory, "db"));
    evendb_keyspace *keyspace = default_of(db), *numbers;
    evendb_cursor *cursor;
    unsigned char buffer[1000];
    size_t used, records;

    put(keyspace, "a", "1");
    put(keyspace, "c", "");
    put(keyspace, "e", "3");
    put(keyspace, "g", "4");
    OK(evendb_cursor_open(keyspace, EVERYTHING, 0, &cursor, E));
    put(keyspace, "b", "later");
    CHECK(next_is(cursor, "a") && same(value, value_size, "1"));
    CHECK(next_is(cursor, "c") && same(value, value_size, ""));
    CHECK(back_is(cursor, "g") && back_is(cursor, "e"));
    CHECK(next_is(cursor, NULL) && back_is(cursor, NULL));
    OK(evendb_cursor_seek(cursor, T("d"), E));
    CHECK(next_is(cursor, NULL));
    OK(evendb_cursor_seek_back(cursor, T("f"), E));
    CHECK(back_is(cursor, "e"));
    OK(evendb_cursor_seek(cursor, NULL, 0, E));
    CHECK(back_is(cursor, "c") && next_is(cursor, "a") && next_is(cursor, NULL));
    evendb_cursor_free(cursor);
    evendb_cursor_free(NULL);

    OK(evendb_cursor_open(keyspace, EVENDB_RANGE_BETWEEN, T("b"), T("e"), EVENDB_KEYS_ONLY, &cursor, E));
    CHECK(next_is(cursor, "b") && same(value, value_size, ""));
    CHECK(next_is(cursor, "c") && next_is(cursor, NULL));
    evendb_cursor_free(cursor);
    OK(evendb_cursor_open(keyspace, EVENDB_RANGE_FROM, T("b"), NULL, 0, 0, &cursor, E));
    OK(evendb_cursor_limit(cursor, 2, E));
    CHECK(next_is(cursor, "b") && back_is(cursor, "g") && next_is(cursor, NULL));
    OK(evendb_cursor_limit(cursor, 1, E));
    CHECK(next_is(cursor, "c") && next_is(cursor, NULL));
    /* The places of the rest may be NULL. */
    OK(evendb_cursor_limit(cursor, 1, E));
    OK(evendb_cursor_next(cursor, &key, NULL, NULL, NULL, E));
    CHECK(key != NULL);
    IS(evendb_cursor_next(cursor, NULL, NULL, NULL, NULL, E), EVENDB_INVALID_ARGUMENT);
    evendb_cursor_free(cursor);
    IS(evendb_cursor_open(keyspace, EVERYTHING, 6, &cursor, E), EVENDB_INVALID_ARGUMENT);

    OK(evendb_keyspace_open(db, "numbers", NULL, &numbers, E));
    for (int number = 0; number < 2000; number++) {
        char of_key[16], of_value[16];
        sprintf(of_key, "%05d", number);
        sprintf(of_value, "%d", 2 * number);
        put(numbers, of_key, of_value);
        if (number == 1000) {
            OK(evendb_flush(db, E));
        }
    }
    for (int backwards = 0; backwards < 2; backwards++) {
        int at = backwards ? 1999 : 0, step = backwards ? -1 : 1;
        OK(evendb_cursor_open(numbers, EVERYTHING, 0, &cursor, E));
        do {
            OK(backwards ? evendb_cursor_fill_back(cursor, buffer, sizeof buffer, &used, &records, E)
                         : evendb_cursor_fill(cursor, buffer, sizeof buffer, &used, &records, E));
            CHECK(used <= sizeof buffer);
            at = expect(buffer, used, records, at, step);
        } while (records > 0);
        CHECK(at == (backwards ? -1 : 2000));
        evendb_cursor_free(cursor);
    }

    /* Too small a buffer moves nothing; fills and steps may alternate, and a limit counts both. */
    OK(evendb_cursor_open(numbers, EVERYTHING, 0, &cursor, E));
    IS(evendb_cursor_fill(cursor, buffer, 13, &used, &records, E), EVENDB_BUFFER_TOO_SMALL);
    CHECK(used == 8 + 5 + 1 && records == 0);
    IS(evendb_cursor_fill(cursor, NULL, 0, &used, NULL, E), EVENDB_BUFFER_TOO_SMALL);
    OK(evendb_cursor_fill(cursor, buffer, 14, &used, &records, E));
    CHECK(expect(buffer, used, records, 0, 1) == 1);
    CHECK(next_is(cursor, "00001") && same(value, value_size, "2"));
    OK(evendb_cursor_fill(cursor, buffer, 14, &used, &records, E));
    CHECK(expect(buffer, used, records, 2, 1) == 3);
    OK(evendb_cursor_seek(cursor, T("01990"), E));
    OK(evendb_cursor_limit(cursor, 6, E));
    CHECK(next_is(cursor, "01990"));
    OK(evendb_cursor_fill_back(cursor, buffer, 2 * (8 + 5 + 4), &used, &records, E));
    CHECK(records == 2 && expect(buffer, used, records, 1999, -1) == 1997);
    OK(evendb_cursor_fill(cursor, buffer, sizeof buffer, &used, &records, E));
    CHECK(records == 3 && expect(buffer, used, records, 1991, 1) == 1994);
    OK(evendb_cursor_fill(cursor, buffer, sizeof buffer, &used, &records, E));
    CHECK(records == 0 && used == 0);
    evendb_cursor_free(cursor);

    /* The record that did not fit at one end is the last one of the other end, too. */
    for (int filled = 0; filled < 2; ++filled) {
        OK(evendb_cursor_open(numbers, EVERYTHING, 0, &cursor, E));
        OK(evendb_cursor_seek(cursor, T("01998"), E));
        OK(evendb_cursor_fill_back(cursor, buffer, 8 + 5 + 4, &used, &records, E));
        CHECK(records == 1 && expect(buffer, used, records, 1999, -1) == 1998);
        if (filled) {
            OK(evendb_cursor_fill(cursor, buffer, sizeof buffer, &used, &records, E));
            CHECK(records == 1 && expect(buffer, used, records, 1998, 1) == 1999);
        } else {
            CHECK(next_is(cursor, "01998"));
        }
        CHECK(next_is(cursor, NULL) && back_is(cursor, NULL));
        evendb_cursor_free(cursor);
    }
    evendb_keyspace_free(numbers);
    evendb_keyspace_free(keyspace);
    OK(evendb_close(db, E));
    evendb_free(db);
    return ended();
}
