validate --plans ../validation/first_contact/jean-zay-1b3.json
