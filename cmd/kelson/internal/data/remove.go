package data

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kelson.dev/apiserver/store"
	"kelson.dev/apiserver/store/archive"
	"kelson.dev/apiserver/store/disk"
	"kelson.dev/cmd/kelson/internal/flags"
	"kelson.dev/cmd/kelson/internal/output"
)

func removeCommand() *cobra.Command {
	var namespace, dir, save string
	var encryption flags.Encryption
	var format output.Format
	c := &cobra.Command{
		Use:   "remove RESOURCE NAME",
		Short: "Take one object out of a data directory that a server cannot read",
		Long: `Take one object out of a data directory that a server cannot read.

kelson data check names the object that makes a directory unreadable, and this
command removes it, without finalizers, admission or controllers. RESOURCE is the
plural with the group: configmaps, deployments.apps. No server must be using the
directory. The stored bytes of the object go to the file of --save, still encrypted
if the directory is. The state without the object is written at a new revision, so
clients that watch list again; the next start of a server removes the old files.

Use kubectl delete for objects that a running server can read.`,
		Example: `  kelson data remove configmaps large --namespace default --data-dir ./state --save large.json`,
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if dir == "" {
				dir = dataDir(nil)
			}
			key := store.Key{Resource: args[0], Namespace: namespace, Name: args[1]}
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			progress.Step("reading %s", dir)
			if err := disk.Remove(dir, key, saveTo(save)); err != nil {
				return hinted(err, dir)
			}
			report, err := readDirectory(dir, &encryption, func(store.Record) {})
			progress.Done()
			if err != nil {
				return hinted(err, dir)
			}
			if format != output.Text {
				return format.Print(c.OutOrStdout(), contentOf(report))
			}
			fmt.Fprintf(c.OutOrStdout(), "removed %s %s from %s: %s\n", key.Resource, named(key), dir, report)
			return nil
		},
	}
	c.Flags().StringVar(&namespace, "namespace", "", "namespace of the object")
	c.Flags().StringVar(&dir, "data-dir", "", "data directory (default: that of kelson serve)")
	c.Flags().StringVar(&save, "save", "", "new file for the stored bytes of the object")
	encryption.AddFlags(c.Flags())
	format.AddFlag(c)
	return c
}

func named(key store.Key) string {
	if key.Namespace == "" {
		return key.Name
	}
	return key.Namespace + "/" + key.Name
}

// saveTo returns a function that writes each state of an object to a file; the last one remains.
// The file must not exist before the first call. "" discards the states.
func saveTo(name string) func(io.Reader) error {
	flag := os.O_EXCL
	return func(data io.Reader) error {
		if name == "" {
			return nil
		}
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|flag, 0o600)
		if err != nil {
			return err
		}
		flag = 0
		_, err = io.Copy(f, data)
		return errors.Join(err, f.Close())
	}
}

// hinted adds to the error of one record the command that takes the object out.
func hinted(err error, dir string) error {
	record, ok := errors.AsType[*archive.RecordError](err)
	if !ok {
		return err
	}
	words := []string{"kelson data remove", record.Key.Resource, record.Key.Name}
	if record.Key.Namespace != "" {
		words = append(words, "--namespace", record.Key.Namespace)
	}
	return fmt.Errorf("%w\nWithout a backup, this command removes the object: %s --data-dir %s --save FILE", err,
		strings.Join(words, " "), dir)
}
