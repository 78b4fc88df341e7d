// Package history implements kelson record, history and diff.
package history

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/kubeconfig"
	"kelson.dev/cmd/kelson/internal/output"
	"kelson.dev/lab/history"
)

// RecordCommand returns kelson record.
func RecordCommand() *cobra.Command {
	var configFile, kubeContext, file string
	var secrets bool
	c := &cobra.Command{
		Use:   "record",
		Short: "Record every version of every object of a cluster in a file",
		Long: `Record every version of every object of a cluster in a file.

It lists and watches all resources of any Kubernetes cluster until it is
interrupted. The user needs permission to list and watch; resources without that
permission are reported and retried. Versions that the cluster replaced while a
watch was interrupted may be missing.

Values of Secrets are not recorded, except with --secrets.`,
		Example: `  kelson record --out incident.history
  kelson history --file incident.history deployment/web`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			config, _, err := kubeconfig.Load(configFile, kubeContext)
			if err != nil {
				return err
			}
			f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, f.Close()) }()
			w, err := history.NewWriter(f)
			if err != nil {
				return err
			}
			defer func() {
				if _, versions := w.Recorded(); err != nil && versions == 0 {
					err = errors.Join(err, os.Remove(file)) // it would prevent the next attempt
				}
			}()
			fmt.Fprintf(c.ErrOrStderr(), "recording %s to %s; interrupt to stop\n", config.Host, file)
			progress := output.NewProgress(c.ErrOrStderr())
			defer progress.Done()
			errOut := progress.Above(c.ErrOrStderr())
			recorder := history.Recorder{Config: config, To: w, Secrets: secrets, Log: func(err error) {
				fmt.Fprintln(errOut, "kelson:", err)
			}}
			stop := count(w, progress)
			err = recorder.Run(c.Context())
			stop()
			if err != nil {
				return fmt.Errorf("record: %w", err)
			}
			return f.Sync()
		},
	}
	c.Flags().StringVar(&configFile, "kubeconfig", "", "kubeconfig of the cluster (default: as for kubectl)")
	c.Flags().StringVar(&kubeContext, "context", "", "context of the kubeconfig to use")
	c.Flags().StringVar(&file, "out", "", "file to create")
	c.Flags().BoolVar(&secrets, "secrets", false, "record the values of Secrets")
	_ = c.MarkFlagRequired("out") // the flag exists
	return c
}

// count shows every second how many versions and objects w has recorded, until stop is called.
func count(w *history.Writer, progress *output.Progress) (stop func()) {
	progress.Step("reading the cluster")
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				objects, versions := w.Recorded()
				progress.Update("recorded %d versions of %d objects", versions, objects)
			}
		}
	})
	return func() {
		close(ended)
		wait.Wait()
	}
}
