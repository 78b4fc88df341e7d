package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kelson.dev/cmd/kelson/internal/causes"
	"kelson.dev/cmd/kelson/internal/project"
)

type whyOptions struct {
	accounts  []string
	namespace string
	last      int
	token     string
	insecure  bool
}

func whyCommand() *cobra.Command {
	opts := whyOptions{}
	c := &cobra.Command{
		Use:   "why KIND/NAME",
		Short: "Tell why an object is as it is: which reconciles wrote it, and what caused them",
		Long: `Tell why an object is as it is: which reconciles wrote it, and what caused them.

Operators on kelson.dev/operator keep an account of each reconcile: the events
that led to it, and its writes. It is read from

  - the files and URLs of --account; several operators make one chain
  - else that of kelson dev, which lies beside the kubeconfig in $KUBECONFIG

An operator writes its account to a file with KELSON_TRACE=file:PATH in its
environment, and serves that of its latest reconciles with the flag
--account-bind-address.`,
		Example: `  kelson why pod/example-at
  kelson why at/example-at -n default --account http://localhost:8090 --account other.account`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return why(c.Context(), opts, args[0], c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringArrayVar(&opts.accounts, "account", nil, "file or URL of an operator's account; - is standard input; may be repeated")
	f.StringVarP(&opts.namespace, "namespace", "n", "", "namespace of the object (default: any)")
	f.IntVar(&opts.last, "last", 5, "how many of the last writes are told")
	f.StringVar(&opts.token, "token", "", "bearer token for URLs")
	f.BoolVar(&opts.insecure, "insecure-skip-tls-verify", false, "don't ask servers of URLs who they are")
	return c
}

func why(ctx context.Context, opts whyOptions, object string, out io.Writer) error {
	kind, name, ok := strings.Cut(object, "/")
	if !ok || kind == "" || name == "" {
		return fmt.Errorf("%q is no object: want KIND/NAME, as pod/web", object)
	}
	accounts := opts.accounts
	if len(accounts) == 0 {
		path := os.Getenv("KUBECONFIG") + project.AccountSuffix
		if _, err := os.Stat(path); err != nil || path == project.AccountSuffix {
			return errors.New("there is no account to read: --account names one, and KUBECONFIG the cluster of kelson dev, which keeps one")
		}
		accounts = []string{path}
	}
	var readers []io.Reader
	for _, place := range accounts {
		r, err := openAccount(ctx, opts, place)
		if err != nil {
			return err
		}
		defer r.Close()
		readers = append(readers, r)
	}
	account, err := causes.Read(readers...)
	if err != nil {
		return err
	}
	found := account.Find(kind, opts.namespace, name)
	if len(found) == 0 {
		return fmt.Errorf("no operator has had to do with %s, as far as the account goes back", object)
	}
	for i, o := range found {
		if i > 0 {
			fmt.Fprintln(out)
		}
		account.Explain(out, o, opts.last)
	}
	return nil
}

func openAccount(ctx context.Context, opts whyOptions, place string) (io.ReadCloser, error) {
	if place == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	if !strings.HasPrefix(place, "http://") && !strings.HasPrefix(place, "https://") {
		return os.Open(place)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, place, nil)
	if err != nil {
		return nil, err
	}
	if opts.token != "" {
		req.Header.Set("Authorization", "Bearer "+opts.token)
	}
	client := &http.Client{Timeout: 30 * time.Second}
	if opts.insecure {
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // as asked
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("read account: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		resp.Body.Close()
		return nil, fmt.Errorf("read account: %s answers %s", place, resp.Status)
	}
	return resp.Body, nil
}
