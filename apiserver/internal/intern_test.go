package internal_test

import (
	"strings"
	"testing"

	"kelson.dev/apiserver/internal/intern"
)

// Text does not allocate for strings that are cached, and always returns the right one.
func TestText(t *testing.T) {
	var pool intern.Pool
	texts := pool.Get()
	defer pool.Put(texts)
	const maxCached = 48 // bytes of the longest string that is cached
	words := []string{"", "metadata", "ä", strings.Repeat("x", maxCached), strings.Repeat("x", maxCached+1)}
	for i := range 2000 {
		words = append(words, strings.Repeat("y", i%7)+string(rune('a'+i%26))+strings.Repeat("z", i/26%40))
	}
	for range 2 {
		for _, word := range words {
			if got := texts.Text([]byte(word)); got != word {
				t.Fatalf("%q reads %q", word, got)
			}
		}
	}
	word := []byte("metadata")
	texts.Text(word)
	if n := testing.AllocsPerRun(10, func() { texts.Text(word) }); n > 0 {
		t.Errorf("%v allocations for cached strings", n)
	}
}
