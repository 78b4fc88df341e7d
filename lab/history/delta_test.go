package history

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Package s2 decodes the blocks to the data that was encoded, no matter how much the two versions
// have in common.
func TestDeltas(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	// A small alphabet makes sequences of eight letters occur repeatedly by chance.
	const small, large = "abcdefgh", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	textOf := func(letters string, n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return b
	}
	text := func(n int) []byte { return textOf(small, n) }
	var d deltas
	size := 0
	for i := range 3000 {
		limit := []int{40, 300, 5000, 70_000}[random.IntN(4)]
		dict := text(16 + random.IntN(limit))
		var data []byte
		for range random.IntN(6) {
			at := random.IntN(len(dict))
			data = append(data, dict[at:at+random.IntN(len(dict)-at+1)]...)
			data = append(data, text(random.IntN(limit/8))...)
		}
		if i%500 == 0 {
			d.next = 1<<31 - 100
		}
		block := d.encode(dict, data)
		got, err := decompress(dict, block)
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d bytes with a dictionary of %d: %v", len(data), len(dict), err)
		}
		size += len(block)
	}
	for _, same := range []int{16, 59, 60, 61, 63, 64, 65, 67, 68, 69, 72, 73, 323, 324, 325, 1000, maxDelta,
		maxDelta + 1} {
		// With a small alphabet, the encoder may begin with a chance match.
		dict := textOf(large, same)
		block := d.encode(dict, dict)
		if got, err := decompress(dict, block); err != nil || !bytes.Equal(got, dict) {
			t.Fatalf("the same %d bytes: %v", same, err)
		}
		if len(block) > 20 {
			t.Errorf("the same %d bytes became %d", same, len(block))
		}
	}
	if block := d.encode([]byte("short"), text(100)); block != nil {
		t.Error("encoded with a short dictionary")
	}
}
