package inprocess_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kelson.dev/apiserver/inprocess"
	"kelson.dev/internal/assert"
	"kelson.dev/internal/require"
)

func ExampleNetwork() {
	var network inprocess.Network
	listener, err := network.Listen("web.shop.svc:80")
	if err != nil {
		panic(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "hello from ", r.Host)
	})}
	go server.Serve(listener)
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{DialContext: network.DialContext}}
	resp, err := client.Get("http://web.shop.svc")
	if err != nil {
		panic(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(string(body), err)
	// Output: hello from web.shop.svc <nil>
}

func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var network inprocess.Network
		dial := func(address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			return network.DialContext(ctx, "tcp", address)
		}
		_, err := dial("127.0.0.1:1")
		assert.ErrorIsf(t, err, syscall.ECONNREFUSED, "dial an address without a listener")
		one, err := network.Listen("")
		require.NoError(t, err)
		two, err := network.Listen("")
		require.NoError(t, err)
		services, err := network.Listen(inprocess.Services)
		require.NoError(t, err)
		if one.Addr().String() == two.Addr().String() {
			t.Errorf("two listeners at %v", one.Addr())
		}
		_, err = network.Listen(one.Addr().String())
		assert.ErrorIsf(t, err, syscall.EADDRINUSE, "listen at an address that is in use")
		// A listener that does not accept.
		_, err = dial(one.Addr().String())
		assert.ErrorIsf(t, err, context.DeadlineExceeded, "dial a listener that does not accept")
		for _, test := range []struct {
			listener net.Listener
			address  string
		}{{one, one.Addr().String()}, {two, two.Addr().String()}, {services, "a.b.svc:443"}} {
			go func() {
				conn, err := test.listener.Accept()
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(conn, "%v", conn.LocalAddr())
				conn.Close()
			}()
			conn, err := dial(test.address)
			require.NoError(t, err)
			if got, err := io.ReadAll(conn); err != nil || string(got) != test.listener.Addr().String() {
				t.Errorf("%s: %q, %v", test.address, got, err)
			}
		}
		one.Close()
		_, err = one.Accept()
		assert.ErrorIsf(t, err, net.ErrClosed, "Accept after Close")
		if network.Listens(one.Addr().String()) || !network.Listens(two.Addr().String()) || network.Listens("a.b:443") {
			t.Error("Listens does not follow Listen and Close")
		}
	})
}
