//go:build linux

package machine

import (
	"os"
	"regexp"
)

const (
	// resolver is the resolv.conf of the machine's programs.
	resolver = "/etc/resolv.conf"
	// resolved is the resolv.conf in which systemd-resolved lists the servers of the network. If it
	// exists, resolver names only systemd-resolved's own server at a loopback address, which pods
	// cannot reach.
	resolved = "/run/systemd/resolve/resolv.conf"
)

// localServer matches the server of systemd-resolved in resolver.
var localServer = regexp.MustCompile(`(?m)^\s*nameserver\s+127\.0\.0\.5[34]\s*$`)

// Resolver returns the resolv.conf for pods that use the DNS servers of the machine's network.
func Resolver() string {
	content, err := os.ReadFile(resolver)
	if err == nil && localServer.Match(content) {
		if _, err := os.Stat(resolved); err == nil {
			return resolved
		}
	}
	return resolver
}
