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

// tokenFile authenticates the tokens of a file. It stores and looks up digests, so that the time of
// a lookup reveals nothing about a token, and the memory of the process contains no tokens.
type tokenFile struct{ file *filewatch.File[staticTokens] }

// staticTokens maps the digests of tokens to users.
type staticTokens map[[sha256.Size]byte]*user.DefaultInfo

func newStaticTokens(users map[string]*user.DefaultInfo) staticTokens {
	all := staticTokens{}
	for token, who := range users {
		all[sha256.Sum256([]byte(token))] = who
	}
	return all
}

// AuthenticateToken implements authenticator.Token.
func (t staticTokens) AuthenticateToken(_ context.Context, token string) (*authenticator.Response, bool, error) {
	who, ok := t[sha256.Sum256([]byte(token))]
	if !ok {
		return nil, false, nil
	}
	return &authenticator.Response{User: who}, true, nil
}

func newTokenFile(name string, log *slog.Logger) (*tokenFile, error) {
	file, err := filewatch.Open(name, func(data []byte) (staticTokens, error) { return parseTokens(data, log) },
		func(err error) { log.Error("reload token file: keeping the previous tokens", "err", err) })
	if err != nil {
		return nil, err
	}
	return &tokenFile{file}, nil
}

// parseTokens parses lines of "token,user,uid" or "token,user,uid,groups". Errors contain line
// numbers but never the content of lines.
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
			return nil, fmt.Errorf("record %d: must have at least 3 columns (token, user name, user uid), found %d",
				number, len(record))
		}
		if record[0] == "" {
			log.Warn("skipping empty token in token file", "record", number)
			continue
		}
		who := &user.DefaultInfo{Name: record[1], UID: record[2]}
		if len(record) >= 4 {
			who.Groups = strings.Split(record[3], ",")
		}
		digest := sha256.Sum256([]byte(record[0]))
		if all[digest] != nil {
			log.Warn("duplicate token in token file: using the last record", "record", number)
		}
		all[digest] = who
	}
}

// AuthenticateToken implements authenticator.Token.
func (t *tokenFile) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	return t.file.Get().AuthenticateToken(ctx, token)
}
