package registry

import (
	"context"
	"errors"
	"fmt"
	"net/url"
)

// File returns the file at a URL of https or http, of up to limit bytes, without
// credentials. The caller checks its digest. A query may hold what is secret and is in
// no error.
//
// Errors: *InvalidError, *UnauthorizedError, *TooLargeError, *UnavailableError.
func (c *Client) File(ctx context.Context, location string, limit int64) ([]byte, error) {
	at, err := url.Parse(location)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" || at.Host == "" {
		return nil, &InvalidError{"it is no URL; write https://host/path"}
	}
	if at.User != nil {
		return nil, &InvalidError{fmt.Sprintf("the URL of %s may hold no user name or password; publish the file where it needs none", at.Host)}
	}
	shown := *at
	shown.RawQuery, shown.Fragment = "", ""
	transport, err := c.transport(shown.String(), Credentials{})
	if err != nil {
		return nil, err
	}
	defer transport.CloseIdleConnections()
	guarded := &guard{inner: transport, origin: at}
	data, _, err := newOrigin(place{url: &shown}, false, guarded).get(ctx, "the file", at.String(), "", limit)
	if errors.Is(err, errAbsent) {
		return nil, &InvalidError{"there is no such file; check the URL"}
	}
	return data, err
}
