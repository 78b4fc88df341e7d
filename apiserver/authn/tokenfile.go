package authn

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"kelson.dev/apiserver/internal/filewatch"
)

// tokenFile knows the tokens of a file. It keeps and compares digests: the time of a comparison says nothing of a token, and no
// token can be found in the memory of the process.
type tokenFile struct{ file *filewatch.File[staticTokens] }

// staticTokens are users by the digests of their tokens.
type staticTokens map[[sha256.Size]byte]*user.DefaultInfo

func newStaticTokens(users map[string]*user.DefaultInfo) staticTokens {
	all := staticTokens{}
	for token, who := range users {
		all[sha256.Sum256([]byte(token))] = who
	}
	return all
}

// AuthenticateToken implements Kubernetes' interface.
func (t staticTokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	who, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: who}, true, nil
}

func newTokenFile(name string, log *slog.Logger) (*tokenFile, error) {
	file, err := filewatch.Open(name, func(data []byte) (staticTokens, error) { return parseTokens(data, log) },
		func(err error) { log.Error("static tokens stay as they were", "err", err) })
	if err != nil {
		return nil, err
	}
	return &tokenFile{file}, nil
}

// parseTokens reads lines of "token,user,uid" or "token,user,uid,groups". Errors name lines, never what is in them.
func parseTokens(data []byte, log *slog.Logger) (staticTokens, error) {
	all := staticTokens{}
	reader := csv.NewReader(bytes.NewReader(data))
	reader.FieldsPerRecord = -1
	for number := 1; ; number++ {
		record, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(record) < 3 {
			return nil, fmt.Errorf("record %d: must have at least 3 columns (token, user name, user uid), found %d", number, len(record))
		}
		if record[0] == "" {
			log.Warn("an empty token in the token file is left out", "record", number)
			continue
		}
		who := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) >= 4 {
			who.Groups = strings.Split(record[3], ",")
		}
		digest := sha256.Sum256([]byte(record[0]))
		if all[digest] != nil {
			log.Warn("a token is in the token file twice: the later one counts", "record", number)
		}
		all[digest] = who
	}
}

// AuthenticateToken implements Kubernetes' interface.
func (t *tokenFile) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return t.file.Get().AuthenticateToken(ctx, token)
}
