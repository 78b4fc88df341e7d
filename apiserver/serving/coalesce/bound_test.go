package coalesce

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/internal/require"
)

// The server closes the connection of a client that does not read, but not of clients that read
// slowly or are idle in between.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, coalesces := range []bool{false, true} {
			near, far := net.Pipe()
			defer near.Close()
			c := newConn(far)
			Bound(c, 30*time.Second)
			if coalesces {
				c.count(1)
			}
			go func() {
				for range 5 {
					time.Sleep(3 * time.Second)
					io.ReadFull(near, make([]byte, 100))
				}
			}()
			for range 5 {
				_, err := c.Write(make([]byte, 100))
				require.NoError(t, err)
			}
			time.Sleep(time.Hour)
			go io.ReadFull(near, make([]byte, 100))
			_, err := c.Write(make([]byte, 100))
			require.NoError(t, err)
			time.Sleep(time.Second)
			start := time.Now()
			_, err = c.Write(make([]byte, 100)) // the peer does not read
			if coalesces && err == nil {
				time.Sleep(31 * time.Second)
				_, err = c.Write(make([]byte, 100))
			}
			if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took > 31*time.Second {
				t.Errorf("gathering %v: %v after %s", coalesces, err, took)
			}
			near.Close()
		}
	})
}

// Without Bound, a write waits indefinitely, and the handler's own deadlines apply.
func TestUnbounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		c := newConn(far)
		go func() {
			time.Sleep(time.Hour)
			io.ReadFull(near, make([]byte, 1))
		}()
		_, err := c.Write([]byte("x"))
		require.NoError(t, err)
		c.SetWriteDeadline(time.Now().Add(time.Second))
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		Bound(c, time.Minute)
		c.SetDeadline(time.Now().Add(time.Second))
		start := time.Now()
		if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("%v after %s", err, time.Since(start))
		}
	})
}
