package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"time"
)

// maxReview bounds what an API server asks, in bytes.
const maxReview = 4 << 20

// webhooks serves what an operator serves with the certificate in a directory, which
// it reads for every connection: it refuses objects with the name "refused", and
// converts by giving an object the version that is asked for.
func webhooks(ctx context.Context, address, dir string) error {
	routes := http.NewServeMux()
	routes.HandleFunc("POST /validate", reviewed(validate))
	routes.HandleFunc("POST /convert", reviewed(convert))
	server := &http.Server{
		Addr: address, Handler: routes, ReadHeaderTimeout: 5 * time.Second,
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
			return &pair, err
		}},
	}
	go func() {
		<-ctx.Done()
		server.Close()
	}()
	if err := server.ListenAndServeTLS("", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// reviewed answers a review with a response that bears the request's uid.
func reviewed(answer func(request map[string]any) map[string]any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var review map[string]any
		if err := json.NewDecoder(io.LimitReader(r.Body, maxReview)).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _ := review["request"].(map[string]any)
		response := answer(request)
		response["uid"] = request["uid"]
		delete(review, "request")
		review["response"] = response
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}
}

func validate(request map[string]any) map[string]any {
	if request["name"] == "refused" {
		return map[string]any{"allowed": false, "status": map[string]any{"message": fmt.Sprintf("the operator refuses %v", request["name"])}}
	}
	return map[string]any{"allowed": true}
}

func convert(request map[string]any) map[string]any {
	objects, _ := request["objects"].([]any)
	for _, each := range objects {
		if object, is := each.(map[string]any); is {
			object["apiVersion"] = request["desiredAPIVersion"]
			object["converted"] = "by the operator"
		}
	}
	return map[string]any{"result": map[string]any{"status": "Success"}, "convertedObjects": objects}
}
