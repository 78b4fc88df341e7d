package store_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/internal/randomtest"
	"kelson.dev/internal/require"
)

func records(n int) []store.Record {
	all := make([]store.Record, n)
	for i := range all {
		all[i] = store.Record{
			Key:      store.Key{Resource: "things", Namespace: fmt.Sprint(i % 3), Name: fmt.Sprint(i)},
			Revision: uint64(i*7 + 2), Created: uint64(i + 1),
			Data: fmt.Appendf(nil, `{"metadata":{},"padding":"%s"}`, strings.Repeat("x", i*37%2000)),
		}
	}
	return all
}

func write(t testing.TB, all []store.Record) []byte {
	var out bytes.Buffer
	require.NoError(t, archive.Write(t.Context(), &out, 1_000_000, slices.Values(all)))
	return out.Bytes()
}

func read(data []byte) (all []store.Record, revision uint64, err error) {
	revision, err = archive.Read(bytes.NewReader(data), func(r store.Record) error { all = append(all, r); return nil })
	return all, revision, err
}

// Reading an archive returns the revision and the records that were written.
func TestRoundTrip(t *testing.T) {
	for _, n := range []int{0, 1, 1000} {
		want := records(n)
		got, revision, err := read(write(t, want))
		if err != nil || revision != 1_000_000 || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d records: %d at %d, %v", n, len(got), revision, err)
		}
	}
}

// Read never accepts damaged or truncated data as a state.
func TestDamage(t *testing.T) {
	good := write(t, records(300))
	seed := randomtest.Seed(t)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 300 {
		bad := bytes.Clone(good)
		switch r.IntN(3) {
		case 0:
			bad = bad[:r.IntN(len(bad))]
		case 1:
			bad[r.IntN(len(bad))] ^= 1 << r.IntN(8)
		default:
			bad = append(bad, byte(r.IntN(256)))
		}
		if _, _, err := read(bad); err == nil {
			t.Error("damage was not detected")
		}
	}
	if _, _, err := read([]byte("something else, and long enough")); !errors.Is(err, archive.ErrForeign) {
		t.Error(err)
	}
}

func TestWriteStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := archive.Write(ctx, new(bytes.Buffer), 1_000_000, slices.Values(records(2000))); !errors.Is(err,
		context.Canceled) {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, records(3)))
	f.Add([]byte("KELSONST"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, _, err := read(data)
		if err != nil {
			return
		}
		for _, r := range all {
			if r.Data == nil || r.Key.Name == "" {
				t.Errorf("%+v", r)
			}
		}
	})
}

// The error of the destination, such as a full disk, is reported once.
func TestWriteFails(t *testing.T) {
	full := errors.New("no space")
	for _, n := range []int{1, 2000} {
		if err := archive.Write(t.Context(), failing{full}, 1_000_000, slices.Values(records(n))); err != full {
			t.Errorf("%d records: %v", n, err)
		}
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// The writer never puts records together into a block that exceeds its size, so a block exceeds it
// only for one record.
func TestBlocks(t *testing.T) {
	const headerSize, blockSize = 24, 256 << 10
	r := rand.New(rand.NewPCG(1, 2))
	var records []store.Record
	for i := range uint64(200) {
		size := r.IntN(blockSize / 8)
		switch {
		case i%20 == 7:
			size = blockSize - r.IntN(200)
		case i == 100:
			size = 5 << 20
		}
		records = append(records, store.Record{Key: store.Key{Resource: "things", Name: fmt.Sprint(i)}, Revision: i + 1,
			Created: i + 1, Data: make([]byte, size)})
	}
	var out bytes.Buffer
	require.NoError(t, archive.Write(t.Context(), &out, 1000, slices.Values(records)))
	for at := headerSize; string(out.Bytes()[at:at+4]) == "KBLK"; {
		length := int(binary.LittleEndian.Uint32(out.Bytes()[at+4:]))
		block := out.Bytes()[at+12 : at+12+length]
		if _, rest, err := archive.TakeRecord(block, 0); err != nil || length > blockSize && len(rest) > 0 {
			t.Errorf("a block of %d bytes, of which %d after its first record; %v", length, len(rest), err)
		}
		at += 12 + length
	}
	read := 0
	if _, err := archive.Read(&out, func(r store.Record) error {
		if want := records[read]; r.Key != want.Key || len(r.Data) != len(want.Data) {
			t.Errorf("read %v, want %v", r.Key, want.Key)
		}
		read++
		return nil
	}); err != nil || read != len(records) {
		t.Errorf("%d records, %v", read, err)
	}
}
