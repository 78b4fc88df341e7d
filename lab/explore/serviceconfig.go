package explore

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// configService is a Service.
type configService struct {
	Address string         `json:"address"`
	Answers []configAnswer `json:"answers"`
	// Descriptors is the path of a file with an encoded FileDescriptorSet.
	Descriptors string `json:"descriptors"`
}

// configAnswer is an Answer.
type configAnswer struct {
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	State   *string           `json:"state"`
	Becomes *string           `json:"becomes"`
	Times   int               `json:"times"`
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Code    codes.Code        `json:"code"`
	Message string            `json:"message"`
	Body    configBody        `json:"body"`
	// File is the path of a file with the body.
	File  string          `json:"file"`
	Delay metav1.Duration `json:"delay"`
	Fails bool            `json:"fails"`
}

// configBody is a text, or a value that is sent as JSON.
type configBody struct{ value any }

// UnmarshalJSON decodes a body. Numbers keep their digits.
func (b *configBody) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	return decoder.Decode(&b.value)
}

// services returns the services of a project in a folder.
func services(dir string, all []configService) ([]Service, error) {
	var services []Service
	for n, c := range all {
		s := Service{Address: c.Address}
		if c.Descriptors != "" {
			data, err := os.ReadFile(filepath.Join(dir, c.Descriptors))
			if err == nil {
				s.Descriptors = &descriptorpb.FileDescriptorSet{}
				err = proto.Unmarshal(data, s.Descriptors)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: services[%d]: descriptors %s: %w", ConfigFile, n, c.Descriptors, err)
			}
		}
		for i, a := range c.Answers {
			answer := Answer{Method: a.Method, Path: a.Path, State: a.State, Becomes: a.Becomes, Times: a.Times,
				Status: a.Status, Code: a.Code, Message: a.Message, Body: a.Body.value, Delay: a.Delay.Duration, Fails: a.Fails}
			for name, value := range a.Headers {
				if answer.Header == nil {
					answer.Header = http.Header{}
				}
				answer.Header.Set(name, value)
			}
			if a.File != "" {
				if a.Body.value != nil {
					return nil, fmt.Errorf("%s: services[%d].answers[%d]: %w", ConfigFile, n, i,
						errors.New("set one of body and file"))
				}
				data, err := os.ReadFile(filepath.Join(dir, a.File))
				if err != nil {
					return nil, fmt.Errorf("%s: services[%d].answers[%d]: %w", ConfigFile, n, i, err)
				}
				answer.Body = string(data)
			}
			s.Answers = append(s.Answers, answer)
		}
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("%s: services[%d]: %w", ConfigFile, n, err)
		}
		services = append(services, s)
	}
	return services, nil
}
