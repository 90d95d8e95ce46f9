package web

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
)

func (s *Server) mountDeliveries(api huma.API) {
	register(s, api, operation(http.MethodGet, "/deliveries", "list-deliveries", ScopeRead, "List deliveries, newest first"), s.apiListDeliveries)
	register(s, api, operation(http.MethodGet, "/deliveries/{id}", "get-delivery", ScopeRead, "Get a delivery and its attempts"), s.apiGetDelivery)
}

type listDeliveriesInput struct {
	PageInput
	State       string `query:"state" enum:"pending,retrying,delivered,expired,dead_lettered,superseded,cancelled"`
	Destination string `query:"destination" maxLength:"40"`
	Event       string `query:"event" maxLength:"400"`
	Subject     string `query:"subject" maxLength:"255"`
}

func (s *Server) apiListDeliveries(ctx context.Context, in *listDeliveriesInput) (*pageOutput[Delivery], error) {
	before, err := parseCursor(in.Cursor, firstPage)
	if err != nil {
		return nil, err
	}
	filter := deliveryFilter{State: in.State, EventID: in.Event, Subject: in.Subject, Before: before, Limit: in.Limit}
	if in.Destination != "" {
		if filter.DestinationID, err = parseIDField(idDestination, "destination", in.Destination); err != nil {
			return nil, err
		}
	}
	page, err := s.listDeliveries(ctx, filter)
	if err != nil {
		return nil, err
	}
	return &pageOutput[Delivery]{page}, nil
}

type deliveryInput struct {
	ID string `path:"id" maxLength:"40"`
}

type deliveryOutput struct{ Body DeliveryDetail }

func (s *Server) apiGetDelivery(ctx context.Context, in *deliveryInput) (*deliveryOutput, error) {
	id, err := parseID(idDelivery, in.ID)
	if err != nil {
		return nil, err
	}
	delivery, err := s.getDelivery(ctx, id)
	if err != nil {
		return nil, err
	}
	return &deliveryOutput{delivery}, nil
}
