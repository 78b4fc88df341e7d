package dropin

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/dropin/etcd"
	"kelson.dev/internal/footprint"
)

// EtcdCommand returns kelson etcd, which envtest starts as etcd if this binary was built without
// the small program.
func EtcdCommand() *cobra.Command {
	c := &cobra.Command{
		Use:     "etcd",
		Short:   "Replacement for the etcd that envtest starts",
		Example: "  kelson envtest   # prints the folder with the programs; envtest starts them",
		Args:    cobra.NoArgs,
	}
	clients := etcd.Flags(c.Flags())
	c.FParseErrWhitelist.UnknownFlags = true
	c.RunE = func(c *cobra.Command, _ []string) error {
		for _, note := range etcd.Ignored(c.Flags(), os.Args[1:]) {
			fmt.Fprintln(c.ErrOrStderr(), "etcd:", note)
		}
		idle := time.AfterFunc(quiet, release)
		defer idle.Stop()
		return etcd.Serve(c.Context(), *clients, c.ErrOrStderr(), func() { idle.Reset(quiet) })
	}
	return c
}

const (
	// quiet is the time without requests after which memory is released.
	quiet = time.Second
	// keptPages is the number of bytes of the binary that may stay in memory.
	keptPages = 1 << 20
)

// release returns the memory that the initialization of the binary's packages used.
func release() {
	debug.FreeOSMemory()
	footprint.Release(keptPages)
}
