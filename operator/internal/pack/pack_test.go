package pack

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

// object returns the n-th of many similar objects.
func object(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"widget-%d","uid":"%08x-%04x","resourceVersion":"%d",%s},"spec":%s}`,
		n, n*2654435761, n*40503, 1000+n, strings.Repeat(`"labels":{"app.kubernetes.io/name":"widget"},`, 5),
		strings.Repeat(`{"template":["a","b"]}`, 20))
}

// Unpack returns what was packed, regardless of what was packed before and after it.
func TestRoundTrip(t *testing.T) {
	p := New()
	packed, size, whole := []Packed{}, 0, 0
	for n := range 1000 {
		packed = append(packed, p.Pack(object(n)))
		size += packed[n].Size()
		whole += len(object(n))
	}
	for n, one := range packed {
		got := one.Unpack([]byte("x"))
		require.Equalf(t, string(got), "x"+string(object(n)), "%d", n)
	}
	if size*10 > whole {
		t.Errorf("%d bytes were packed into %d", whole, size)
	}
	assert.Lenf(t, (Packed{}).Unpack(nil), 0, "the empty string")
	if d := p.Dictionary(); d < len(object(0)) || d > 4*len(object(0)) {
		t.Errorf("dictionary of %d", d)
	}
}

// The dictionary is bounded, and is replaced when objects of another kind are packed.
func TestDictionaryIsRenewed(t *testing.T) {
	p := New()
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(length int) []byte {
		b := make([]byte, length)
		for n := range b {
			b[n] = byte(random.Uint32())
		}
		return b
	}
	var packed []Packed
	var data [][]byte
	for n := range 1000 {
		d := noise(3000)
		if n == 100 {
			d = noise(2 * maxDictionary)
		}
		data, packed = append(data, d), append(packed, p.Pack(d))
		if p.Dictionary() > maxDictionary {
			t.Fatalf("dictionary of %d", p.Dictionary())
		}
	}
	generations := map[*dictionary]bool{}
	for n, one := range packed {
		generations[one.dict] = true
		if !bytes.Equal(one.Unpack(nil), data[n]) {
			t.Fatalf("%d is not what it was", n)
		}
	}
	if len(generations) < 2 || len(generations) > 4 {
		t.Error("generations:", len(generations))
	}
}

func TestConcurrently(t *testing.T) {
	p := New()
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for n := range 200 {
				data := fmt.Appendf(object(n), " %d %s", w, strings.Repeat(fmt.Sprint(w, n), 50))
				if packed := p.Pack(data); !bytes.Equal(packed.Unpack(nil), data) {
					t.Error("the unpacked string differs")
					return
				}
			}
		})
	}
	all.Wait()
}

func FuzzPack(f *testing.F) {
	f.Add([]byte("abcdefghabcdefghabcdefgh"), []byte("xxabcdefghabcdefgh"))
	f.Add(bytes.Repeat([]byte{0}, 100), []byte{})
	f.Add(object(1), object(2))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		p := New()
		first, second, third := p.Pack(a), p.Pack(b), p.Pack(append(bytes.Clone(b), a...))
		if !bytes.Equal(first.Unpack(nil), a) || !bytes.Equal(second.Unpack(nil), b) ||
			!bytes.Equal(third.Unpack(nil), append(bytes.Clone(b), a...)) {
			t.Error("the unpacked string differs")
		}
	})
}

func BenchmarkPack(b *testing.B) {
	p := New()
	data := object(1)
	p.Pack(data)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		p.Pack(data)
	}
}

func BenchmarkUnpack(b *testing.B) {
	p := New()
	p.Pack(object(1))
	packed := p.Pack(object(2))
	b.SetBytes(int64(len(object(2))))
	var buf []byte
	for b.Loop() {
		buf = packed.Unpack(buf[:0])
	}
}
