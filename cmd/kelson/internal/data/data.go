// Package data implements kelson data: checks, repairs, backups, restores and copies of the state
// of a control plane.
package data

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/cmd/kelson/internal/serve"
	"kelson.dev/kubernetes/controlplane"
)

// Command returns kelson data.
func Command() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Check, back up, restore, copy and repair the state of a control plane",
	}
	c.AddCommand(checkCommand(), backupCommand(), restoreCommand(), copyCommand(), removeCommand())
	return c
}

func checkCommand() *cobra.Command {
	var encryption flags.Encryption
	var format output.Format
	c := &cobra.Command{
		Use:   "check [DIRECTORY]",
		Short: "Verify a data directory and report its content or its damage",
		Long: `Verify a data directory and report its content or its damage.

It reads all of the directory and changes nothing. No server must be using the
directory. If one object is the reason why a server cannot read the directory, the
error names the object, and the command that takes it out. Objects that exceed the
present limits of a server, such as 1.5 MiB, are listed; a server can read them.`,
		Example: "  kelson data check ./state",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			progress := output.NewProgress(c.ErrOrStderr())
			progress.Step("reading %s", dataDir(args))
			report, err := readDirectory(dataDir(args), &encryption, func(store.Record) {})
			progress.Done()
			if err != nil {
				return hinted(err, dataDir(args))
			}
			if format != output.Text {
				err = format.Print(c.OutOrStdout(), contentOf(report))
			} else {
				_, err = fmt.Fprintln(c.OutOrStdout(), report)
			}
			if err != nil {
				return err
			}
			if report.Missing() > 0 {
				return errors.New("check data directory: acknowledged writes are missing: restore a backup")
			}
			return nil
		},
	}
	encryption.AddFlags(c.Flags())
	format.AddFlag(c)
	return c
}

// content is a Report in JSON and YAML.
type content struct {
	Revision uint64 `json:"revision"`
	Objects  int    `json:"objects"`
	// State is the revision of the newest complete state, and StateBytes its size. Both are 0 if
	// the directory has no state.
	State      uint64 `json:"state"`
	StateBytes int64  `json:"stateBytes"`
	// Logs, Batches and LogBytes are those of the logs since the state.
	Logs     int   `json:"logs"`
	Batches  int   `json:"batches"`
	LogBytes int64 `json:"logBytes"`
	// Torn is the number of bytes of an incomplete last write that a crash left.
	Torn int64 `json:"torn"`
	// Missing is the least number of acknowledged writes that the directory no longer has.
	Missing uint64 `json:"missing"`
	// Excessive are the objects that exceed the limits of a server.
	Excessive []excessive `json:"excessive,omitempty"`
}

// excessive is an object that exceeds the limits of a server.
type excessive struct {
	Resource  string `json:"resource"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Bytes     int    `json:"bytes"`
}

func contentOf(r disk.Report) content {
	c := content{r.Revision, r.Objects, r.State, r.StateBytes, r.Logs, r.Batches, r.LogBytes, r.Torn, r.Missing(), nil}
	for _, e := range r.Excessive {
		c.Excessive = append(c.Excessive, excessive{e.Key.Resource, e.Kind, e.Key.Namespace, e.Key.Name, e.Bytes})
	}
	return c
}

// readDirectory verifies a data directory and calls each with its objects, decrypted. It changes
// nothing.
func readDirectory(dir string, encryption *flags.Encryption, each func(store.Record)) (disk.Report, error) {
	decrypt, end, err := encrypted.Reader(encrypted.Config{File: encryption.File})
	if err != nil {
		return disk.Report{}, err
	}
	defer end()
	return disk.CheckWith(dir, func(r *store.Record) error {
		err := decrypt(r)
		if err == nil {
			each(*r)
		}
		return err
	})
}

func dataDir(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return serve.DefaultDataDir()
}

func backupCommand() *cobra.Command {
	var configFile, dir string
	var encryption flags.Encryption
	var format output.Format
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Back up the state of a running control plane or of a data directory to a file",
		Long: `Back up the state of a running control plane or of a data directory to a file.

With --kubeconfig, it saves the state of a running control plane at one revision
while the server continues to accept writes. The user needs permission to get
` + controlplane.BackupPath + `, which the group system:masters has. With --data-dir, it reads a
directory that no server is using, and decrypts it if necessary. The file
appears only after the backup is complete and verified. It contains all Secrets
in plain text: protect it accordingly. If the command is killed, FILE.unfinished-N
remains, which the next backup to the same FILE removes.`,
		Example: `  kelson data backup --kubeconfig ~/.local/share/kelson/kubeconfig kelson.backup
  kelson data backup --data-dir ./state kelson.backup`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			read := func(w io.Writer) error {
				return backupDirectory(c.Context(), dir, &encryption, w, c.ErrOrStderr())
			}
			if dir == "" {
				if encryption.File != "" {
					return errors.New("--encryption-provider-config needs --data-dir: a running control plane decrypts its own state")
				}
				read = func(w io.Writer) error { return backupServer(c.Context(), configFile, w) }
			}
			progress := output.NewProgress(c.ErrOrStderr())
			progress.Step("writing %s", args[0])
			revision, err := WriteBackup(args[0], read)
			progress.Done()
			if err != nil {
				return err
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), map[string]any{"revision": revision, "file": args[0]})
			}
			fmt.Fprintf(c.OutOrStdout(), "backed up the state at revision %d to %s\n", revision, args[0])
			return nil
		},
	}
	c.Flags().StringVar(&configFile, "kubeconfig", "", "kubeconfig of the control plane (default: as for kubectl)")
	c.Flags().StringVar(&dir, "data-dir", "", "data directory to read instead of a running control plane")
	encryption.AddFlags(c.Flags())
	format.AddFlag(c)
	c.MarkFlagsMutuallyExclusive("kubeconfig", "data-dir")
	c.MarkFlagsMutuallyExclusive("kubeconfig", "encryption-provider-config")
	return c
}

func backupDirectory(ctx context.Context, dir string, encryption *flags.Encryption, w, errOut io.Writer) error {
	var records []store.Record
	report, err := readDirectory(dir, encryption, func(r store.Record) { records = append(records, r) })
	if err != nil {
		return err
	}
	if report.Missing() > 0 {
		fmt.Fprintln(errOut, "warning:", report)
	}
	return archive.Write(ctx, w, report.Revision+report.Missing(), slices.Values(records))
}

func backupServer(ctx context.Context, configFile string, w io.Writer) error {
	config, _, err := kubeconfig.Load(configFile, "")
	if err != nil {
		return err
	}
	config.GroupVersion, config.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return err
	}
	body, err := client.Get().AbsPath(controlplane.BackupPath).Stream(ctx)
	if err != nil {
		return err
	}
	defer body.Close()
	_, err = io.Copy(w, body)
	return err
}

func restoreCommand() *cobra.Command {
	var ahead uint64
	var format output.Format
	c := &cobra.Command{
		Use:   "restore FILE [DIRECTORY]",
		Short: "Create a data directory from a backup",
		Long: `Create a data directory from a backup.

The directory must not contain a state. The restored control plane must not
assign a revision that the original one assigned after the backup: clients that
saw it would miss changes. So the restored state starts --bump-revision after the
backup's revision, and clients that watch from older revisions have to list again.`,
		Example: "  kelson data restore kelson.backup ./state",
		Args:    cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			dir := dataDir(args[1:])
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			progress.Step("writing %s", dir)
			if err := disk.Restore(dir, f, ahead); err != nil {
				return err
			}
			progress.Step("reading %s", dir)
			report, err := disk.Check(dir)
			if err != nil {
				return err
			}
			progress.Done()
			if format != output.Text {
				return format.Print(c.OutOrStdout(), contentOf(report))
			}
			fmt.Fprintf(c.OutOrStdout(), "restored %s: %s\n", dir, report)
			return nil
		},
	}
	c.Flags().Uint64Var(&ahead, "bump-revision", 1_000_000_000,
		"number of revisions to skip: more than the original control plane assigned after the backup")
	format.AddFlag(c)
	return c
}
