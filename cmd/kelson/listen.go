package main

import (
	"fmt"
	"io"
	"log/slog"
	"net"

	"kelson.dev/server/redact"
)

// newLog returns the logger of a server: text without the contents of objects.
func newLog(out io.Writer, level slog.Level) *slog.Logger {
	return redact.Logger(slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level})))
}

// warnUnlessLoopback tells on out if other machines may reach a listener, and what they may do if everything is allowed to everybody.
func warnUnlessLoopback(out io.Writer, address net.Addr, allowsAll bool) {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsLoopback() {
		return
	}
	fmt.Fprintf(out, "WARNING: listening on %s: other machines may reach this control plane; --bind-address=127.0.0.1 limits it to this one\n", address)
	if allowsAll {
		fmt.Fprintln(out, "WARNING: authorization mode AlwaysAllow: every client that reaches it may do everything, without a credential")
	}
}
