package coalesce

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// A client that does not read loses a bounded connection; one that reads slowly, and one that is
// idle between, do not.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, gathers := range []bool{false, true} {
			near, far := net.Pipe()
			defer near.Close()
			c := newConn(far)
			Bound(c, 30*time.Second)
			if gathers {
				c.count(1)
			}
			go func() {
				for range 5 {
					time.Sleep(3 * time.Second)
					io.ReadFull(near, make([]byte, 100))
				}
			}()
			for range 5 {
				if _, err := c.Write(make([]byte, 100)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Hour)
			go io.ReadFull(near, make([]byte, 100))
			if _, err := c.Write(make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			start := time.Now()
			_, err := c.Write(make([]byte, 100)) // the peer does not read
			if gathers && err == nil {
				time.Sleep(31 * time.Second)
				_, err = c.Write(make([]byte, 100))
			}
			if took := time.Since(start); !errors.Is(err, os.ErrDeadlineExceeded) || took > 31*time.Second {
				t.Errorf("gathering %v: %v after %s", gathers, err, took)
			}
			near.Close()
		}
	})
}

// Without a bound a write waits for as long as the client likes, and deadlines that are set count.
func TestUnbounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer near.Close()
		c := newConn(far)
		go func() {
			time.Sleep(time.Hour)
			io.ReadFull(near, make([]byte, 1))
		}()
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
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
