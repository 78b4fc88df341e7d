package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/apiserver/store/encrypted"
	"kelson.dev/kubernetes/controlplane"
)

func dataCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "data",
		Short: "Check, back up and restore the state of a control plane",
	}
	c.AddCommand(dataCheckCommand(), dataBackupCommand(), dataRestoreCommand())
	return c
}

func dataCheckCommand() *cobra.Command {
	var encryption encryptionFlags
	c := &cobra.Command{
		Use:   "check [DIRECTORY]",
		Short: "Read a data directory whole and say what is in it, or what is wrong with it",
		Long: `Read a data directory whole and say what is in it, or what is wrong with it.

Nothing is changed. The directory must not be in use.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			report, err := checkDirectory(dataDir(args), &encryption)
			if err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), report)
			if report.Missing() > 0 {
				return errors.New("acknowledged writes are missing")
			}
			return nil
		},
	}
	encryption.addFlags(c.Flags())
	return c
}

func checkDirectory(dir string, encryption *encryptionFlags) (disk.Report, error) {
	decrypt, end, err := encrypted.Reader(encrypted.Config{File: encryption.file})
	if err != nil {
		return disk.Report{}, err
	}
	defer end()
	return disk.CheckWith(dir, decrypt)
}

func dataDir(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	return defaultDataDir()
}

func dataBackupCommand() *cobra.Command {
	var kubeconfig, dir string
	var encryption encryptionFlags
	c := &cobra.Command{
		Use:   "backup FILE",
		Short: "Write the whole state to a file, of a control plane while it serves, or of a data directory",
		Long: `Write the whole state to a file.

With --kubeconfig it is that of a running control plane, at one revision, while
writes go on; the user must be allowed to get ` + controlplane.BackupPath + `, as those of
system:masters are. With --data-dir it is read from a directory that is not in
use, and decrypted if it must be. The file is there only when it is whole. It
holds all Secrets, plain: keep it as you keep them.`,
		Example: `  kelson data backup --kubeconfig ~/.local/share/kelson/kubeconfig kelson.backup
  kelson data backup --data-dir ./state kelson.backup`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			read := func(w io.Writer) error { return backupDirectory(c.Context(), dir, &encryption, w) }
			if dir == "" {
				read = func(w io.Writer) error { return backupServer(c.Context(), kubeconfig, w) }
			}
			revision, err := writeBackup(args[0], read)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s has the state at revision %d\n", args[0], revision)
			return nil
		},
	}
	c.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig of the control plane (default as kubectl's)")
	c.Flags().StringVar(&dir, "data-dir", "", "directory to read instead")
	encryption.addFlags(c.Flags())
	c.MarkFlagsMutuallyExclusive("kubeconfig", "data-dir")
	c.MarkFlagsMutuallyExclusive("kubeconfig", "encryption-provider-config")
	return c
}

// writeBackup writes beside the file and moves into place what proves to be whole.
func writeBackup(name string, read func(io.Writer) error) (revision uint64, err error) {
	temp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".new-") // mode 0600
	if err != nil {
		return 0, err
	}
	defer os.Remove(temp.Name()) // it is not there any more when all went well
	err = read(temp)
	if err == nil {
		err = temp.Sync()
	}
	if err == nil {
		if _, err = temp.Seek(0, io.SeekStart); err == nil {
			revision, err = archive.Read(temp, func(r store.Record) error { _, err := store.CheckRecord(r); return err })
		}
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return 0, fmt.Errorf("back up: %w", err)
	}
	return revision, os.Rename(temp.Name(), name)
}

func backupDirectory(ctx context.Context, dir string, encryption *encryptionFlags, w io.Writer) (err error) {
	if _, err := checkDirectory(dir, encryption); err != nil { // also that there is something
		return err
	}
	var backend store.Backend
	if backend, err = disk.Open(dir); err != nil {
		return err
	}
	if backend, err = encryption.around(backend, nil); err != nil {
		return err
	}
	state, err := store.Open(store.Config{Backend: backend})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.Close()) }()
	sn := state.Snapshot()
	return archive.Write(ctx, w, sn.Revision(), sn.Records())
}

func backupServer(ctx context.Context, kubeconfig string, w io.Writer) error {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
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

func dataRestoreCommand() *cobra.Command {
	var ahead uint64
	c := &cobra.Command{
		Use:   "restore FILE [DIRECTORY]",
		Short: "Make a data directory of a backup",
		Long: `Make a data directory of a backup.

The directory must have no state yet. Revisions that were given after the backup
must not be given again: clients that know them would wait for what never comes.
So the control plane that is then started on it goes on from the backup's revision
and --bump-revision more, and tells such clients to list anew.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			f, err := os.Open(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			dir := dataDir(args[1:])
			if err := disk.Restore(dir, f, ahead); err != nil {
				return err
			}
			report, err := disk.Check(dir)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "%s is %s\n", dir, report)
			return nil
		},
	}
	c.Flags().Uint64Var(&ahead, "bump-revision", 1_000_000_000, "how many revisions to leave out: more than were given since the backup")
	return c
}
